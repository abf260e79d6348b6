"""An index of a million made-up reports: how long it takes to open, search and change, and how much memory."""

import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from measure import Row, peak_mb, seconds
from omegaconf import OmegaConf
from prepared_data import configuration

from gedbd.corpora.bug_report import Report
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.encoders.openvino_model import has_bfloat16
from gedbd.retrieval.report_ranking.feature_store import TERMS_VERSION
from gedbd.triage.index_building import Model, synchronise
from gedbd.triage.storage import stored_model
from gedbd.triage.storage.folder_store import compact, read_index
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.stored_index import open_index
from gedbd.triage.triage_model import default_model

COUNT, DIM, WORDS, LENGTH, QUERIES, ADDED = 1_000_000, 384, 200_000, 60, 100, 60


def main() -> list[Row]:
    """Texts of words that are as unevenly common as in a language, and vectors as near to each other as real ones."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for part in (_build, _make_files, _search_quickly, _search):
            # Each in a process of its own, which tells its own memory.
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                rows += pool.submit(part, Path(folder)).result()
    return rows


_row = partial(Row, "a million reports")


def _build(folder: Path) -> list[Row]:
    rng = np.random.default_rng(0)
    corpus, vectors = made_up_corpus(rng, COUNT), made_up_vectors(rng, COUNT)
    store = IndexStore(folder / FILE)
    spent = seconds(lambda: synchronise(store, corpus, made_up_model(), lambda _: vectors))
    store.close()
    asked = corpus.reports.loc[: QUERIES - 1, ["title", "description"]]
    asked.to_json(folder / "asked.json", orient="values")
    size = f"{(folder / FILE).stat().st_size / 2**20:,.0f} MB"
    return [_row("building, vectors at hand", COUNT / spent, "reports/s", note=f"{size}, peak {peak_mb():,.0f} MB")]


def made_up_model() -> Model:
    """The default encoder and ranker."""
    cfg = configuration()
    settings = {name: OmegaConf.to_container(cfg[name], resolve=True) for name in ("encoder", "text", "backend")}
    about = {"settings": json.dumps(settings), "matching": default_model().as_json(), "name": "made up"}
    key = model_key(about["settings"], about["matching"], b"")
    return Model(about | {"model": key, "terms": TERMS_VERSION, "boilerplate": "[]", "calibration": "[]"}, b"")


def _make_files(folder: Path) -> list[Row]:
    spent = seconds(lambda: compact(folder / FILE))
    size = sum(path.stat().st_size for path in folder.glob("index.cache-*")) / 2**20
    return [_row("making the files beside it", spent, "s", note=f"{size:,.0f} MB, peak {peak_mb():,.0f} MB")]


def _search_quickly(folder: Path) -> list[Row]:
    """Searches with the quickest encoder there is."""
    if not has_bfloat16():
        return []
    cfg = configuration("backend=openvino_bf16")
    asked = _asked(folder)
    # Made-up vectors do not come from any backend.
    with patch.object(stored_model, "_check_backend"):
        index = open_index(folder, cfg.cache_dir, cfg.backend)
    for report in asked:
        index.search(report)
    waits = [1000 * seconds(partial(index.search, report)) for report in asked]
    index.close()
    return [_row("search, bfloat16, p50", _percentile(waits, 50), "ms", note=_others(waits, ""))]


def _search(folder: Path) -> list[Row]:
    cfg = configuration()
    asked = _asked(folder)
    opened = []
    whole = seconds(lambda: opened.append(open_index(folder, cfg.cache_dir)))
    (index,) = opened
    store = IndexStore(folder / FILE, create=False)
    alone = seconds(lambda: read_index(store))
    store.close()
    first = [1000 * seconds(partial(index.search, report)) for report in asked]
    waits = [1000 * seconds(partial(index.search, report)) for report in asked]
    added = [1000 * seconds(partial(index.add, [_fresh(number)])) for number in range(ADDED)]
    changed = 1000 * seconds(lambda: index.add([_fresh(0, issue_id="500")]))
    deleted = 1000 * seconds(lambda: index.delete("777"))
    after = [1000 * seconds(partial(index.search, report)) for report in asked]
    index.close()
    first_note = f"the very first one {first[0]:,.0f} ms"
    return [
        _row("opening", alone, "s", note=f"{whole:.1f} s with the encoder, imports not counted"),
        _row("search, p50", _percentile(waits, 50), "ms", note=_others(waits, first_note)),
        _row("adding one, p50", _percentile(added, 50), "ms", note=f"first {added[0]:.0f} ms, max {max(added):.0f} ms"),
        _row("replacing one", changed, "ms"),
        _row("deleting one", deleted, "ms"),
        _row("search after these changes, p50", _percentile(after, 50), "ms", note=_others(after, "")),
        _row("peak memory of the process that searches", peak_mb(), "MB", note="files mapped into memory included"),
    ]


def _asked(folder: Path) -> list[Report]:
    return [Report(*texts) for texts in json.loads((folder / "asked.json").read_text())]


def _fresh(number: int, issue_id: str = "") -> Report:
    return Report(f"one more {number}", f"word5 word{number * 7} new{number}", issue_id=issue_id or f"new{number}")


def _percentile(values: list[float], share: float) -> float:
    return float(np.percentile(values, share))


def _others(values: list[float], more: str) -> str:
    told = f"p95 {_percentile(values, 95):.0f} ms, max {max(values):.0f} ms"
    return f"{told}; {more}" if more else told


def made_up_vectors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Vectors with neighbours as near as those of real reports, ``(N, D)``.

    The variances along random axes fall by a power law, and the mean has a length of .4, as for MiniLM's vectors of
    Xamarin's reports. The cosine with the 1,001st nearest of 36,387 is then .38 (real ones: .37).
    """
    rotation, _ = np.linalg.qr(rng.standard_normal((DIM, DIM)))
    deviations = np.arange(1, DIM + 1) ** -0.4
    axes = rotation * (deviations / np.linalg.norm(deviations))[:, None]
    vectors = rng.standard_normal((count, DIM), dtype=np.float32) @ axes.astype(np.float32)
    vectors += (0.5 * rotation[0]).astype(np.float32)
    return unit_rows(vectors)


def made_up_corpus(rng: np.random.Generator, count: int) -> Corpus:
    """Texts of words that are as unevenly common as in a language."""
    words = np.array([f"word{number}" for number in range(WORDS)])
    drawn = words[np.minimum(rng.zipf(1.2, size=count * LENGTH) - 1, WORDS - 1)].reshape(count, LENGTH)
    reports = pd.DataFrame("", index=range(count), columns=list(BUG_FIELDS), dtype=str)
    reports["id"] = [str(number) for number in range(count)]
    reports["title"] = [" ".join(row[:8]) for row in drawn]
    reports["description"] = [" ".join(row[8:]) for row in drawn]
    reports["component"] = [f"part {number % 50}" for number in range(count)]
    reports["created_at"] = pd.Timestamp("2020-01-01", tz="UTC") + pd.to_timedelta(np.arange(count), unit="min")
    return Corpus.of_table("made up", reports, np.arange(count) // 2 * 2)
