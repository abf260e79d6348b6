"""An index of a million made-up reports: does it fit, and how long does it take?"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from measure import Row, peak_mb, seconds
from omegaconf import OmegaConf
from prepared_data import configuration
from search import MATCHING

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.encoders.encoder import unit_rows
from gedbd.triage.assembly import open_index
from gedbd.triage.report import Report
from gedbd.triage.storage.store import FILE, Store
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.storage.sync import Model, synchronise

COUNT, DIM, WORDS, LENGTH, QUERIES = 1_000_000, 384, 200_000, 60, 50


def main() -> list[Row]:
    """Texts of words that are as unevenly common as in a language; vectors at random."""
    cfg = configuration()
    with tempfile.TemporaryDirectory() as folder:
        spent, asked = _build(cfg, Path(folder))
        size = f"{(Path(folder) / FILE).stat().st_size / 2**20:,.0f} MB on disk"
        built = Row("a million reports", "building", COUNT / spent, "reports/s", note=size)
        return [built, *_opened(Path(folder), cfg, asked)]


def _build(cfg: object, path: Path) -> tuple[float, list[Report]]:
    """Seconds, and some of the reports."""
    rng = np.random.default_rng(0)
    corpus, vectors = _corpus(rng), unit_rows(rng.standard_normal((COUNT, DIM), dtype=np.float32))
    settings = {name: OmegaConf.to_container(cfg[name], resolve=True) for name in ("encoder", "text", "backend")}
    about = {"settings": json.dumps(settings), "matching": MATCHING.as_json(), "name": "made up"}
    key = model_key(about["settings"], about["matching"], b"")
    model = Model(about | {"model": key, "boilerplate": "[]", "calibration": "[]"}, b"")
    store = Store(path / FILE)
    spent = seconds(lambda: synchronise(store, corpus, model, lambda _: vectors))
    store.close()
    return spent, [Report(*texts) for texts in corpus.reports.loc[:QUERIES, ["title", "description"]].to_numpy()]


def _opened(path: Path, cfg: object, asked: list[Report]) -> list[Row]:
    opened = []
    spent = seconds(lambda: opened.append(open_index(path, cfg.cache_dir)))
    waits = [1000 * seconds(lambda report=report: opened[0].search(report)) for report in asked]
    middle, high = np.percentile(waits, [50, 95])
    added = seconds(lambda: opened[0].add([Report("one more", issue_id="new")]))
    return [
        Row("a million reports", "opening", spent, "s"),
        Row("a million reports", "search, p50", float(middle), "ms", note=f"p95 {high:.0f} ms"),
        Row("a million reports", "adding one", 1000 * added, "ms"),
        Row("a million reports", "peak memory, building included", peak_mb(), "MB"),
    ]


def _corpus(rng: np.random.Generator) -> Corpus:
    words = np.array([f"word{number}" for number in range(WORDS)])
    drawn = words[np.minimum(rng.zipf(1.2, size=COUNT * LENGTH) - 1, WORDS - 1)].reshape(COUNT, LENGTH)
    reports = pd.DataFrame("", index=range(COUNT), columns=list(BUG_FIELDS), dtype=str)
    reports["id"] = [str(number) for number in range(COUNT)]
    reports["title"] = [" ".join(row[:8]) for row in drawn]
    reports["description"] = [" ".join(row[8:]) for row in drawn]
    reports["component"] = [f"part {number % 50}" for number in range(COUNT)]
    reports["created_at"] = pd.Timestamp("2020-01-01", tz="UTC") + pd.to_timedelta(np.arange(COUNT), unit="min")
    return Corpus.of_table("made up", reports, np.arange(COUNT) // 2 * 2)
