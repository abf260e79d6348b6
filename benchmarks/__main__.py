"""``make bench``: every section in a process of its own; one table, ``benchmark.md``, a plot and a record.

make bench CORPUS=reports.csv.xz SECTIONS="training encoding"
make bench CORPUS=reports.csv.xz SECTIONS=search FILL=docs/results/speed.md
make bench CORPUS=reports.csv.xz FILL=docs/results/speed.md

Without SECTIONS, the tables that the page has a place for are filled. The record says how long each section took.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from compare import digits
from fill import HEADER, check_page, fill_tables, markdown_table, shown
from matplotlib.figure import Figure
from measure import Row
from records import Record, read_row
from rich.console import Console

from gedbd.evaluation.figures import BLUE, save_figure
from gedbd.io.command_output import print_table
from gedbd.io.console import open_console, print_path

SECTIONS = ("commands", "code_encoder", "graph", "encoding", "peers", "search", "start", "tag_network", "training")
MADE_UP = ("eclipse_size", "encoder_size", "growth", "million", "repository", "shared")  # they read no corpus
ON_REQUEST = (
    "eclipse_size",
    "encoder_size",
    "quality",
    "flow_graph",
    "gpu",
    "growth",
    "locate",
    "million",
    "repository",
    "shared",
    "stackexchange",
)


def main() -> None:
    """Runs the sections and writes what came out."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument(
        "--corpus", default="", help="CSV file of reports in bughub's columns; the demo corpus if absent"
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmark"))
    parser.add_argument(
        "--section", choices=(*SECTIONS, *ON_REQUEST), help="run one section in this process and print its rows"
    )
    parser.add_argument("--fill", default="", help="Markdown file whose tables of these sections are replaced")
    parser.add_argument("sections", nargs="*", help="all but those on request if absent")
    chosen = parser.parse_args()
    os.environ["BENCHMARK_CORPUS"] = str(Path(chosen.corpus).resolve()) if chosen.corpus else ""
    if chosen.section:
        rows = importlib.import_module(chosen.section).main()
        print(json.dumps([asdict(row) for row in rows]))
        return
    if chosen.fill:
        check_page(Path(chosen.fill), chosen.sections)
    found, took, failed = {}, [], []
    for name in chosen.sections or SECTIONS:
        start = time.perf_counter()
        try:
            found[name] = _apart(name)
        except subprocess.CalledProcessError:
            failed.append(name)
        else:
            took.append(Row("make bench", f"section {name}", time.perf_counter() - start, "s"))
    if found:
        _write(chosen.out, found, took, chosen.corpus, Path(chosen.fill) if chosen.fill else None)
    if failed:
        raise SystemExit(f"error: these sections ended with an error, see above: {', '.join(failed)}")


def _apart(section: str) -> list[Row]:
    """The rows of a section, measured in a process of its own."""
    command = [sys.executable, str(Path(__file__).parent), "--section", section]
    command += ["--corpus", os.environ["BENCHMARK_CORPUS"]] if os.environ["BENCHMARK_CORPUS"] else []
    Console(stderr=True).print(f"{section} ...")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [read_row(row) for row in json.loads(done.stdout.strip().splitlines()[-1])]


def _write(folder: Path, found: dict[str, list[Row]], took: list[Row], corpus: str, page: Path | None) -> None:
    rows = [*(row for of_section in found.values() for row in of_section), *took]
    record = Record.of(corpus, rows)
    kept = record.write(folder / "records")
    (folder / "benchmark.md").write_text(markdown_table(rows) + "\n")
    if page is not None:
        made_up = replace(record, corpus="made up").title
        titles = {name: made_up if name in MADE_UP else record.title for name in found}
        page.write_text(fill_tables(page.read_text(), found, titles))
    console = open_console()
    print_table(console, pd.DataFrame([shown(row) for row in rows], columns=[*HEADER[:-1], "note"]), record.title)
    print_path(console, "written to", folder)
    print_path(console, "the record for make bench-compare:", kept)
    _draw(folder / "benchmark", rows, record.title)


def _draw(path: Path, rows: list[Row], title: str) -> None:
    """Ratios as bars from 1 on a logarithmic axis."""
    bars = [(row, row.ratio) for row in rows if row.ratio is not None]
    figure = Figure(figsize=(8, 0.6 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    ratios = [ratio for _, ratio in bars]
    axes.barh([f"{row.section}: {row.what}" for row, _ in bars], [ratio - 1 for ratio in ratios], left=1, color=BLUE)
    for place, (row, ratio) in enumerate(bars):
        axes.text(1.1 * max(1, ratio), place, f"{digits(ratio)}x {row.reference}", va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(0.7 * min([1, *ratios]), 200 * max([1, *ratios]))
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("times better")
    axes.set_title(title, fontsize=9)
    save_figure(figure, path, dpi=110)


if __name__ == "__main__":
    main()
