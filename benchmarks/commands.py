"""Seconds from the command line to the answer, relative to importing PyTorch and transformers."""

import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory

from measure import Row, repeated, take_turns

IMPORTS = "import torch, transformers"
REPEATS = 5
CONSOLE_SCRIPT = "from gedbd.__main__ import main; main()"


def main() -> list[Row]:
    """Builds an index of the demo corpus, then times commands in turns with the imports."""
    with TemporaryDirectory() as folder:
        gedbd = partial(_run, folder, CONSOLE_SCRIPT)
        gedbd("backtest", "dataset=demo", "hydra.run.dir=backtest")
        gedbd("index", "run=backtest", "out=index")
        found = take_turns(
            {
                IMPORTS: partial(_run, folder, IMPORTS),
                "gedbd --help": partial(gedbd, "--help"),
                "gedbd search, a missing argument": partial(gedbd, "search", status=2),
                "gedbd search, a missing index": partial(gedbd, "search", "index=none", "crash", status=1),
                "gedbd describe": partial(gedbd, "describe", "dataset=demo"),
                "gedbd search": partial(gedbd, "search", "index=index", "crash when pasting"),
            },
            REPEATS,
        )
    reference = found.pop(IMPORTS)
    rows = [repeated("commands", IMPORTS, reference, "s")]
    for name, values in found.items():
        rows.append(repeated("commands", name, values, "s", (IMPORTS, reference), "demo"))
    return rows


def _run(folder: str, code: str, *words: str, status: int = 0) -> None:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
