"""Options that a command keeps beside an index, so that later calls need not give them.

An index may come from a stranger, and the options say where a token is sent. The file is therefore signed with a key in
the user's own cache folder, and one with another signature is refused.
"""

import hmac
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from gedbd.configuration.command_words import option_of, quoted_text
from gedbd.configuration.saved_options import PATHS
from gedbd.io.files import cache_folder, read_object, write_text

FILE = "sync.json"
KEY = "sync.key"
KEY_BYTES = 32
OF_ONE_CALL = {"index", "json", "quiet", "replace"}
INDEX = "index="
REPOSITORY_PATHS = ("repo", "locate_run")


def with_remembered_options(arguments: Sequence[str]) -> list[str]:
    """Arguments for Hydra, and before them those options in the index's folder that the command line does not give.

    Args:
        arguments: The command line of ``gedbd sync``.

    Raises:
        ValueError: If the file is damaged or not from this user, and the command line does not name the project.
    """
    words = list(arguments)
    folders = [word.removeprefix(INDEX).strip("'\"") for word in words if word.startswith(INDEX)]
    if not folders:
        return words
    file = Path(folders[-1]).expanduser() / FILE
    given = set(map(option_of, words))
    if not file.is_file() or "project" in given:  # with a project, the command line is a first one
        return words
    content = read_object(file, "options", "signature")
    if not hmac.compare_digest(str(content["signature"]), _signature(content["options"])):
        raise ValueError(
            f"{file} was not written by this user on this machine, so its options are not used: give tracker= and"
            " project= again, or set GEDBD_CACHE= to the folder of that call"
        )
    return [word for word in content["options"] if option_of(word) not in given] + words


def remember_options(folder: Path, words: Sequence[str]) -> None:
    """Writes the options of a call beside an index; paths become absolute, since cron calls from another folder."""
    options = [_with_absolute_path(word) for word in words if option_of(word) not in OF_ONE_CALL]
    write_text(folder / FILE, json.dumps({"options": options, "signature": _signature(options)}, indent=2) + "\n")


def _with_absolute_path(word: str) -> str:
    key, _, value = word.partition("=")
    is_path = key.rpartition(".")[2] in (*PATHS, *REPOSITORY_PATHS) and value and Path(value).exists()
    return f"{key}={quoted_text(str(Path(value).absolute()))}" if is_path else word


def _signature(options: object) -> str:
    """A keyed hash of options; the key is made if there is none."""
    file = cache_folder(os.environ.get("GEDBD_CACHE", "~/.cache/gedbd")) / KEY
    if not file.is_file():
        write_text(file, secrets.token_hex(KEY_BYTES))
        file.chmod(0o600)
    return hmac.new(file.read_bytes(), json.dumps(options).encode(), "sha256").hexdigest()
