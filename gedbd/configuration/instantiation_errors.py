"""Error messages of one line for objects that Hydra cannot create: the option, the target and the cause."""

import re

from hydra.errors import InstantiationException

CALL = re.compile(r"call to target '(?P<target>.+?)'(?:.*full_key: (?P<key>\S+))?", re.DOTALL)
LOCATING = re.compile(r"Error locating target '(?P<target>.+?)'(?:.*full_key: (?P<key>\S+))?", re.DOTALL)
LOADING = re.compile(r"Error loading '(?P<target>.+?)'")
KEY = re.compile(r"full_key: (\S+)$")
TRACEBACK = "HYDRA_FULL_ERROR=1 shows where"


def creation_line(error: InstantiationException, cause_line: str | None) -> str:
    """The message for an object that Hydra cannot create.

    Args:
        error: Hydra's error.
        cause_line: The message for its cause, if that is an error that the user can correct.
    """
    cause = error.__cause__
    locating = LOCATING.search(str(error))
    if locating:
        section = f"{locating['key']}." if locating["key"] else ""
        return import_line(f"{section}_target_={locating['target']}", locating["target"], cause)
    if cause is None:
        key = KEY.search(str(error))
        return f"{key[1]}: {first_line(error)}" if key else first_line(error)
    return _refused_argument(error, cause) or _with_place(error, cause_line) or _failed_call(error, cause)


def lookup_line(error: ImportError) -> str | None:
    """The message for a target that Hydra looks up without calling it; None for other errors."""
    loading = LOADING.match(str(error))
    return import_line(f"_target_={loading[1]}", loading[1], error) if loading else None


def import_line(option: str, target: str, cause: BaseException | None) -> str:
    """The message for a target that cannot be imported.

    Args:
        option: The option with its value.
        target: Dotted name of a class or function.
        cause: What the import raised.
    """
    if cause is not None and LOADING.match(str(cause)):  # Hydra's error around that of Python
        cause = cause.__cause__
    top = target.partition(".")[0]
    missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if missing == top:
        return f"cannot import {top}: {option}; put its folder on PYTHONPATH"
    if missing and f"{target}.".startswith(f"{missing}."):  # gedbd.losses has no module gedbd.losses.hinge
        module, _, name = missing.rpartition(".")
        return f"{option}: {module} has no {name}"
    return f"cannot import {option}: {_named(cause)}"


def _refused_argument(error: InstantiationException, cause: BaseException) -> str | None:
    """The message for an option that a class refuses, such as one added to Lightning's Trainer."""
    named = CALL.search(str(error))
    if named is None:
        return None
    section = f"{named['key']}." if named["key"] else ""
    unknown = re.search(r"unexpected keyword argument '(.+?)'", str(cause))
    if isinstance(cause, TypeError) and unknown:
        return f"{section}{unknown[1]}= is not an argument of {named['target']}: leave it out"
    missing = re.search(r"missing \d+ required .* arguments?: '(.+?)'", str(cause))
    if isinstance(cause, TypeError) and missing:
        return f"{section}{missing[1]}= is required by {named['target']}"
    if named["target"].startswith("pytorch_lightning") and not isinstance(cause, OSError):
        return f"{named['key'] or 'trainer'}: {first_line(cause)}"
    return None


def _with_place(error: InstantiationException, line: str | None) -> str | None:
    """A message of a reader that names its options, for one that is nested: ``dataset.reports.path`` in a history."""
    nested = re.search(r"full_key: (dataset\.\w+)$", str(error))
    return re.sub(r"(?<![\w/.])dataset\.(?=\w)", f"{nested[1]}.", line) if nested and line else line


def _failed_call(error: InstantiationException, cause: BaseException) -> str:
    """The message for a call that failed for a reason that gedbd does not know."""
    named = CALL.search(str(error))
    if named is None:
        return f"{first_line(error)} {_named(cause)}; {TRACEBACK}"
    section = f"{named['key']}: " if named["key"] else ""
    return f"{section}{named['target']} fails: {_named(cause)}; {TRACEBACK}"


def _named(error: BaseException | None) -> str:
    """An error's type and message."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message."""
    return str(error).strip().partition("\n")[0]
