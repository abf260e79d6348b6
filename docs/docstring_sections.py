"""What griffe calls while it reads docstrings: "Example:" is a section of code, as "Examples:" is."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Gives the section the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the section in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
