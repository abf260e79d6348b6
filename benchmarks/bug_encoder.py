"""Trains the adapters of encoder=bug_minilm, on all trackers and without some of them, and writes their card.

python benchmarks/bug_encoder.py train FOLDER --runs RUNS
python benchmarks/bug_encoder.py card FOLDER --runs RUNS

FOLDER holds a folder for each tracker with its ``reports.csv.xz``, and ``askubuntu_titles`` with ``questions.csv.xz``
and ``duplicates.csv.xz``. ``train`` needs about 15 minutes for each training on two cores with AMX and continues
interrupted ones; ``card`` ranks the newest fifth of the trackers that were left out.
"""

import argparse
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from adapter_files import write_adapters

import gedbd
from gedbd.encoders.adapter_list import ALL, WITHOUT
from gedbd.encoders.encoder_weights import encoder_state
from gedbd.evaluation.significance import compare_means
from gedbd.io.files import CONF_DIR

TRACKERS = ("xamarin", "titanium", "hadoop", "eclipse_recent", "openoffice", "mozilla_mobile")
SMALL = ("activemq", "zookeeper", "cyrus", "fieldtrip")
TITLES = "askubuntu"
LEFT_OUT = ("hadoop", "titanium", "eclipse_recent", "xamarin")
# The share of the learned change that is added to the weights of MiniLM. See the card.
SHARE = 0.75
CONFIG = Path(CONF_DIR) / "encoder" / "bug_minilm.yaml"
OUTPUT = Path(gedbd.__file__).parent / "encoders" / "bug_minilm"
CARD = """# bug_minilm

`encoder=bug_minilm` is all-MiniLM-L6-v2 (Apache-2.0) with low-rank adapters (LoRA, rank 8, all linear layers) that were
trained on duplicate bug reports. The files hold the adapters in float16, which are added to MiniLM's weights when the
encoder is loaded. `adapters.json` has their checksums, that of MiniLM's weights, and for each tracker hashes of 64
reports, by which gedbd recognises it. They hold no text.

- Trained on {date}: `python benchmarks/bug_encoder.py train FOLDER --runs RUNS`, which runs `gedbd train
  experiment=across_trackers` on all trackers, and with one of them left out: 480 batches, each of 16 groups of one
  tracker with two reports and a hard negative, seed 0, bfloat16.
{data}
- {share:.0%} of the learned change is added to the weights (`lora_alpha` in `adapters.json`; Wortsman et al., "Robust
  Fine-Tuning of Zero-Shot Models", 2022). Rank, learning rate and temperature were not tuned.
- Sources: xamarin/bugzilla-archives; tidev/jira-archive (Apache-2.0); SPEAR-SE/LogInBugReportsEmpirical_Data (Apache
  Jira); SigmaJahan/Towards-Understanding-the-Impacts-of-Textual-Dissimilarity-on-Duplicate-Bug-Report-Detection;
  dutta1kartik3/duplicate-bug-detection; cyrusimap/BugzillaImport; fieldtrip/bugzilla;
  nlx-group/Duplicate-Question-Detection (CC BY-SA).

## On trackers that were left out

Cosine ranking of the newest fifth of each tracker by the encoder that was trained without it (`encoder.without=NAME`),
beside MiniLM: `gedbd baseline name=frozen encoder=bug_minilm encoder.without=NAME dataset.path=... dataset=csv
backend=openvino_bf16`. Brackets hold 95% intervals of the paired difference (bootstrap over duplicate groups).

| tracker | queries | encoder | RR@1 | RR@10 | MRR | difference of the MRR |
|---|---|---|---|---|---|---|
{rows}

Pairs of the bundled corpus and of a forum, on which it was not trained, say what it is worth beside bug reports:

| corpus | queries | encoder | RR@1 | RR@10 | MRR | difference of the MRR |
|---|---|---|---|---|---|---|
{general}

On the trackers of its training data `all` looks better than it is: use the adapter that leaves the tracker out. Other
languages than English were not measured.
"""


def run(*words: str) -> None:
    """Runs a command of gedbd."""
    subprocess.run([sys.executable, "-m", *words], check=True)


def training_options(data: Path, left_out: str | None) -> list[str]:
    """The command of a training."""
    paths = [f"{data / name / 'reports.csv.xz'}" for name in (*TRACKERS, *SMALL) if name != left_out]
    folder = data / "askubuntu_titles"
    titles = f"{{path: {folder / 'questions.csv.xz'}, links: {folder / 'duplicates.csv.xz'}, name: {TITLES}}}"
    options = ["experiment=across_trackers", f"dataset.paths=[{','.join([*paths, titles])}]", "task.refit=true"]
    return ["gedbd.train", *options, "trainer.precision=bf16-mixed", "backend=openvino_bf16"]


def train(data: Path, runs: Path, names: Sequence[str]) -> None:
    """Trains what is not trained yet."""
    for name in names:
        left_out = None if name == ALL else name.removeprefix(WITHOUT)
        run(*training_options(data, left_out), f"hydra.run.dir={runs / name}")


def write(data: Path, runs: Path, names: Sequence[str]) -> None:
    """Writes the adapters, their list and its checksum in the encoder's options."""
    adapters = {name: encoder_state(runs / name / "checkpoints" / "refit.ckpt") for name in names}
    tables = {}
    for name in (*TRACKERS, *SMALL):
        tables[name] = [gedbd.load_corpus(data / name / "reports.csv.xz").reports]
    base = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["sha256"]
    digest = write_adapters(OUTPUT, base, adapters, tables, SHARE)
    lines = CONFIG.read_text(encoding="utf-8").splitlines()
    lines = [f"adapter_sha256: {digest}" if line.startswith("adapter_sha256:") else line for line in lines]
    CONFIG.write_text("\n".join(lines) + "\n", encoding="utf-8")


def ranked(folder: Path, options: Sequence[str]) -> pd.DataFrame:
    """The ranked queries of a baseline, which runs unless it has."""
    if not (folder / "queries.parquet").is_file():
        run("gedbd", "baseline", "name=frozen", "backend=openvino_bf16", *options, f"hydra.run.dir={folder}")
    return pd.read_parquet(folder / "queries.parquet")


def card_rows(runs: Path, name: str, dataset: Sequence[str], without: Sequence[str]) -> list[str]:
    """The two rows of a corpus in the card."""
    minilm = ranked(runs / "card" / name / "minilm", ["encoder=minilm", *dataset])
    adapted = ranked(runs / "card" / name / "bug_minilm", ["encoder=bug_minilm", *without, *dataset])
    rows = []
    for encoder, table in (("minilm", minilm), ("bug_minilm", adapted)):
        difference = ""
        if table is adapted:
            test = compare_means(
                (1 / table["rank"]).to_numpy(), (1 / minilm["rank"]).to_numpy(), pd.factorize(table["group"])[0]
            )
            difference = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
        found = [np.mean(table["rank"] == 1), np.mean(table["rank"] <= 10), np.mean(1 / table["rank"])]
        values = " | ".join(f"{value:.3f}" for value in found)
        rows.append(f"| {name} | {len(table)} | {encoder} | {values} | {difference} |")
    return rows


def main() -> None:
    """Trains and writes, or measures and writes the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["train", "write", "card"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    arguments = parser.parse_args()
    data, runs = arguments.data.resolve(), arguments.runs.resolve()
    names = [ALL, *(f"{WITHOUT}{name}" for name in LEFT_OUT)]
    if arguments.step == "train":
        train(data, runs, names)
    if arguments.step in ("train", "write"):
        write(data, runs, names)
        return
    rows, general = [], []
    for name in LEFT_OUT:
        dataset = ["dataset=csv", f"dataset.path={data / name / 'reports.csv.xz'}"]
        rows += card_rows(runs, name, dataset, [f"encoder.without={name}"])
    general += card_rows(runs, "demo", ["dataset=demo"], [])
    forum = ["dataset=stackexchange", f"dataset.path={data / 'stackexchange' / 'cs'}"]
    general += card_rows(runs, "cs.stackexchange.com", forum, [])
    text = CARD.format(
        date=date.today().isoformat(),
        data=textwrap.fill(
            f"- Training data: all duplicate groups of {', '.join((*TRACKERS, *SMALL))} and the duplicate titles of Ask"
            " Ubuntu.",
            width=120,
            subsequent_indent="  ",
        ),
        share=SHARE,
        rows="\n".join(rows),
        general="\n".join(general),
    )
    (OUTPUT / "README.md").write_text(text, encoding="utf-8")
    print("\n".join([*rows, *general]))


if __name__ == "__main__":
    main()
