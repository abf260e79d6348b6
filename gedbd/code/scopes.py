"""Which variable a name of Java code means: scopes of blocks, methods, lambdas and nested classes."""

from typing import NamedTuple

from gedbd.code.node_types import NodeType


class Variable(NamedTuple):
    """A variable that occurs in a method: its number, declared type, and whether it is declared as an array."""

    key: int
    type: NodeType
    is_array: bool


class Scopes:
    """Variables in view at one place of a method, and the fields that the method does not declare.

    A field is known by the variable that it belongs to: ``o.f`` and ``p.f`` are two variables, ``this.f`` and an
    undeclared ``f`` are one. Variables of patterns are in view until the end of the block around them.
    """

    def __init__(self) -> None:
        self._chain: list[dict[str, Variable]] = [{}]
        self._classes: list[dict[str, Variable]] = []
        self._fields: dict[tuple[int | str | None, str], Variable] = {}
        self._num_keys = 0

    def push(self) -> None:
        """Begin a block."""
        self._chain.append({})

    def pop(self) -> None:
        """End a block."""
        self._chain.pop()

    def push_class(self) -> None:
        """Begin the body of a nested class."""
        self.push()
        self._classes.append(self._chain[-1])

    def pop_class(self) -> None:
        """End the body of a nested class."""
        self.pop()
        self._classes.pop()

    def declare(self, name: str, kind: NodeType, is_array: bool = False) -> Variable:
        """A new variable, which hides others of its name."""
        variable = self._new(kind, is_array)
        self._chain[-1][name] = variable
        return variable

    def find(self, name: str) -> Variable | None:
        """The declared variable of a name."""
        for scope in reversed(self._chain):
            if name in scope:
                return scope[name]
        return None

    def field(self, owner: int | str | None, name: str) -> Variable:
        """The field of a variable, given by its number, of a type, given by its name, or of ``this`` (None)."""
        if owner is None and self._classes and name in self._classes[-1]:
            return self._classes[-1][name]
        known = self._fields.get((owner, name))
        if known is None:
            known = self._new(NodeType.NULL, False)
            self._fields[owner, name] = known
        return known

    def unique(self) -> Variable:
        """A variable that occurs only once, as the field of the result of a call."""
        return self._new(NodeType.NULL, False)

    def _new(self, kind: NodeType, is_array: bool) -> Variable:
        self._num_keys += 1
        return Variable(self._num_keys, kind, is_array)


def is_type_name(name: str) -> bool:
    """Whether an undeclared name is one of a type: ``Foo``, but neither ``foo`` nor ``FOO``."""
    return name[:1].isupper() and any(letter.islower() for letter in name)
