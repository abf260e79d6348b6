"""Let AI agents search an index: a read-only server of the Model Context Protocol."""

import sys
from contextlib import redirect_stdout
from importlib.util import find_spec

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.io.console import open_console, print_detail


@command("mcp")
def main(cfg: DictConfig) -> None:
    """Opens the index for reading, and answers requests on standard input until it is closed."""
    if find_spec("mcp") is None:
        raise ValueError("mcp is not installed: pip install 'gedbd[mcp]'")
    # Standard output carries the protocol only.
    with redirect_stdout(sys.stderr), gc_paused():
        from gedbd.service.mcp_server import serve_stdio
        from gedbd.triage.stored_index import open_index

        index = open_index(cfg.index, cfg.cache_dir, cfg.get("backend"), read_only=True)
        console = open_console(stderr=True)
        print_detail(console, f"{index.name}: {len(index):,} reports; answers on standard output")
    serve_stdio(index)
    index.close()
