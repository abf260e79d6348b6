"""The 43 roles of variables in a semantic flow graph, as published; for the source see ``node_types``."""

from enum import IntEnum


class Role(IntEnum):
    """In which operation a variable takes part. The innermost operation counts; parentheses and casts are none."""

    BLOCK_DEFAULT = 0
    """No operation that has a role of its own: thrown, the condition of a for loop, or a statement by itself."""
    FIELD = 1
    """Declared as a field of a class, without a value."""
    PARAMETER = 2
    """Declared as a parameter of a method or a lambda."""
    LOCAL = 3
    """Declared as a local variable, without a value."""
    CATCH = 4
    """Declared as the exception of a ``catch`` clause."""
    RESOURCE = 5
    """Declared as, or named as, a resource of ``try``."""
    RECORD_COMPONENT = 6
    """Declared as a component of a record."""
    ANNOTATION_VALUE = 7
    """Argument of an annotation."""
    ASSIGNED = 8
    """Gets a value: left of ``=``, ``+=`` and others, declared with a value, or declared by an enhanced for loop."""
    ASSIGNMENT = 9
    """The value that is assigned."""
    ARRAY_TARGET = 10
    """The array of ``a[i]``."""
    ARRAY_EXPRESSION = 11
    """The index of ``a[i]``, a size of ``new int[n]``, or an element of ``{x, y}``, of an annotation's too."""
    INVOCATION_TARGET = 12
    """The object whose method is called or referred to by ``::``, or the ``o`` of ``o.new T()``."""
    INVOCATION_ARGUMENT = 13
    """Argument of a method."""
    RELATION_OPERATOR_LEFT = 14
    """Left of ``&&`` or ``||``."""
    RELATION_OPERATOR_RIGHT = 15
    """Right of ``&&`` or ``||``."""
    BIT_OPERATOR_LEFT = 16
    """Left of ``&``, ``|``, ``^`` or a shift."""
    BIT_OPERATOR_RIGHT = 17
    """Right of ``&``, ``|``, ``^`` or a shift."""
    COMPARE_OPERATOR_LEFT = 18
    """Left of ``==``, ``!=``, ``<``, ``>``, ``<=`` or ``>=``."""
    COMPARE_OPERATOR_RIGHT = 19
    """Right of ``==``, ``!=``, ``<``, ``>``, ``<=`` or ``>=``."""
    MATH_OPERATOR_LEFT = 20
    """Left of ``+``, ``-``, ``*``, ``/`` or ``%``."""
    MATH_OPERATOR_RIGHT = 21
    """Right of ``+``, ``-``, ``*``, ``/`` or ``%``."""
    INSTANCEOF_OPERATOR_LEFT = 22
    """Left of ``instanceof``."""
    INSTANCEOF_OPERATOR_RIGHT = 23
    """Declared by the pattern right of ``instanceof``."""
    OTHER_UNARY = 24
    """Operand of ``!``, ``~``, ``+`` or ``-``."""
    ASSIGN_UNARY = 25
    """Operand of ``++`` or ``--``, before or after it."""
    ASSERT_VALUE = 26
    """Condition or message of ``assert``."""
    SWITCH_SELECTOR = 27
    """What a switch chooses by."""
    CASE_VALUE = 28
    """Value of a ``case``, or declared by its pattern."""
    CONDITIONAL_CONDITION = 29
    """Condition of ``?:``."""
    CONDITIONAL_THEN = 30
    """Second operand of ``?:``."""
    CONDITIONAL_ELSE = 31
    """Third operand of ``?:``."""
    RETURN = 32
    """Returned by a method, or the body of a lambda."""
    CONSTRUCTOR_ARGUMENT = 33
    """Argument of ``new``, ``this(...)`` or ``super(...)``."""
    DO_WHILE_EXPRESSION = 34
    """Condition of a do-while loop."""
    FOREACH_EXPRESSION = 35
    """What an enhanced for loop runs over."""
    IF_EXPRESSION = 36
    """Condition of an ``if``."""
    ELSE_EXPRESSION = 37
    """Condition of an ``if`` that directly follows ``else``."""
    WHILE_EXPRESSION = 38
    """Condition of a while loop."""
    YIELD_EXPRESSION = 39
    """Result of a branch of a switch expression, with or without ``yield``."""
    SYNCHRONIZED_EXPRESSION = 40
    """Lock of a ``synchronized`` block."""
    FIELD_READ_TARGET = 41
    """The object whose field is read or written."""
    UNKNOWN = 42
    """In code that does not parse, or is nested more than ``builder.MAX_DEPTH`` deep."""
