"""A training on a corpus of the form and size of Eclipse: how long it reads, starts, trains and validates, and memory.

The label files are bughub's, and texts those of other trackers, as bughub's texts cannot be passed on:
``make bench CORPUS=data/xamarin/reports.csv.xz SECTIONS=eclipse_size``. Beside the folder of CORPUS lie those of
``CORPORA`` and ``bughub_labels``. BENCHMARK_ONE_IN=16 takes a sixteenth of the reports, for a trial.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from measure import Row, peak_mb, seconds

CORPORA = ("xamarin", "titanium", "hadoop")
FOLDER = "EclipsePlatform"
PARTS = ("train", "test")
OPTIONS = ("dataset=eclipse", "trainer.max_epochs=1")
DATE_FORMAT = "%Y-%m-%d %H:%M:%S +0000"
STEPS = 20
FIRST_TIMED = 5  # the first steps of a training are slower
SECTION = "Eclipse's size"


def main() -> list[Row]:
    """Makes the corpus, and measures a first and a second start, each in a process of its own."""
    one_in = int(os.environ.get("BENCHMARK_ONE_IN", "1"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        reports = write_corpus(folder / "data" / FOLDER, Path(os.environ["BENCHMARK_CORPUS"]).parents[1], one_in)
        size = f"{reports:,} reports"
        reading = [json.loads(_apart("read_once", folder))["seconds"] for _ in range(2)]
        cold = json.loads(_apart("train_steps", folder, f"+trainer.max_steps={STEPS}"))
        second_start_s, second_peak_mb = map(float, _apart("first_step", folder).split())
    batches = f"{cold['batches']:,.0f} batches, by the median of {cold['timed']:.0f}"
    return [
        Row(SECTION, "reading the export, first time", reading[0], "s", note=size),
        Row(SECTION, "reading the export, second time", reading[1], "s", note="from the cache"),
        Row(SECTION, "from the command to the first batch", cold["first_s"], "s", note="nothing encoded before"),
        Row(SECTION, "the same, second start", second_start_s, "s", note="caches warm"),
        Row(SECTION, "an epoch, estimated", cold["step_s"] * cold["batches"] / 60, "min", note=batches),
        Row(SECTION, "validation", cold["validation_s"], "s"),
        Row(SECTION, "peak memory", cold["peak_mb"], "MB", note=f"first start, {STEPS} steps and a validation"),
        Row(SECTION, "peak memory until the first batch", second_peak_mb, "MB", note="second start"),
    ]


def write_corpus(folder: Path, data: Path, one_in: int = 1) -> int:
    """Writes bughub's files into ``folder``: the packed reports and both label files; returns the number of reports.

    Args:
        folder: Created.
        data: Folder of the corpora.
        one_in: Takes the first reports of each label file, one in so many.
    """
    folder.mkdir(parents=True)
    labels = [_read(data / "bughub_labels" / FOLDER / f"{part}.csv.xz") for part in PARTS]
    labels = [table.iloc[: len(table) // one_in] for table in labels]
    for part, table in zip(PARTS, labels, strict=True):
        table.to_csv(folder / f"{part}.csv", index=False)
    linked = pd.concat(labels).drop_duplicates("Issue_id").sort_values("Issue_id", key=lambda ids: ids.astype(int))
    texts = pd.concat([_read(data / name / "reports.csv.xz") for name in CORPORA], ignore_index=True)
    order = np.random.default_rng(0).permutation(len(texts))[: len(linked)]
    dates = pd.date_range("2001-10-11", "2013-12-31", periods=len(linked))
    reports = texts.iloc[order].assign(
        Issue_id=linked["Issue_id"].to_numpy(),
        Duplicated_issue=linked["Duplicate"].to_numpy(),
        Created_time=dates.strftime(DATE_FORMAT).to_numpy(),
        Resolved_time=(dates + pd.Timedelta(days=30)).strftime(DATE_FORMAT).to_numpy(),
    )
    packing = {"method": "zip", "archive_name": "eclipse_platform.csv"}
    reports.to_csv(folder / "eclipse_platform.zip", index=False, compression=packing)
    return len(reports)


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _apart(function: str, folder: Path, *more: str) -> str:
    """The last line that a function of this module prints in a process of its own; corpus and cache are in a folder."""
    command = [sys.executable, "-c", f"import eclipse_size; eclipse_size.{function}()"]
    words = [
        *OPTIONS,
        f"data_dir={folder / 'data'}",
        f"cache_dir={folder / 'cache'}",
        f"hydra.run.dir={folder / 'run'}",
    ]
    command += [*words, *more]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip().splitlines()[-1]


def read_once() -> None:
    """Prints how long the export is read."""
    from gedbd.configuration.options import compose_options
    from gedbd.experiments.corpus_reading import read_corpus

    cfg = compose_options("train", [word for word in sys.argv[1:] if not word.startswith("hydra.")])
    print(json.dumps({"seconds": seconds(lambda: read_corpus(cfg.dataset, cfg.cache_dir))}))


def first_step() -> None:
    """Prints seconds until the first batch, and the peak memory in MB."""
    import first_step

    sys.argv.insert(1, "steps=1")
    first_step.main()


def train_steps() -> None:
    """Trains some steps, validates, and prints what that took."""
    from first_step import process_start

    began = process_start()
    import gedbd.train
    from gedbd.configuration.command import gc_paused

    with gc_paused():  # as the command imports it
        from gedbd.duplicates.duplicate_detector import DuplicateDetector

    train, start, end = (
        getattr(DuplicateDetector, name)
        for name in ("training_step", "on_validation_epoch_start", "on_validation_epoch_end")
    )
    times: list[float] = []

    def training_step(self, batch, batch_idx):  # type: ignore[no-untyped-def]
        times.append(time.time())
        return train(self, batch, batch_idx)

    def on_validation_epoch_start(self):  # type: ignore[no-untyped-def]
        times.append(time.time())
        start(self)

    def on_validation_epoch_end(self):  # type: ignore[no-untyped-def]
        end(self)
        found = {
            "first_s": times[0] - began,
            "step_s": float(np.median(np.diff(times[FIRST_TIMED:]))),
            "timed": len(times) - FIRST_TIMED - 1,  # a small corpus has fewer batches
            "batches": self.trainer.num_training_batches,
            "validation_s": time.time() - times[-1],
            "peak_mb": peak_mb(),
        }
        print(json.dumps(found), flush=True)
        os._exit(0)

    for method in (training_step, on_validation_epoch_start, on_validation_epoch_end):
        setattr(DuplicateDetector, method.__name__, method)
    gedbd.train.main()
