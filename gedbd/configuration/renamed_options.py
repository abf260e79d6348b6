"""Options that were renamed."""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any


def refuse_renamed(renamed: Mapping[str, str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a command that is given an option by its old name end with one line that names the new one.

    Hydra would say that there is no such option, and how to add it.

    Args:
        renamed: Old name to new name.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def checked(*arguments: Any) -> Any:
            for given in sys.argv[1:]:
                name = given.partition("=")[0].lstrip("+~")
                if "=" in given and name in renamed:
                    raise SystemExit(f"error: the option {name} is now called {renamed[name]}")
            return command(*arguments)

        return checked

    return decorate
