"""Building, opening and searching an index: in process beside bm25s, and over HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import bm25s
import numpy as np
import requests
from hydra.utils import instantiate
from measure import Row, seconds
from omegaconf import DictConfig, OmegaConf
from prepared_data import configuration

from gedbd.corpora.bug_report import Report, report_from_row
from gedbd.corpora.corpus import Corpus
from gedbd.encoders.openvino_model import has_bfloat16
from gedbd.experiments.prepare import encode_corpus
from gedbd.retrieval.boosted_trees import BoostedTrees
from gedbd.retrieval.report_ranking.candidate_features import candidate_features
from gedbd.retrieval.report_ranking.feature_store import TERMS_VERSION
from gedbd.retrieval.report_ranking.first_stage import QueryScores, find_candidates
from gedbd.retrieval.report_ranking.processes import num_available_cores
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker
from gedbd.retrieval.report_ranking.report_training import ReportHistory
from gedbd.triage.index_building import Model, synchronise
from gedbd.triage.storage.folder_store import compact
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.stored_index import open_index
from gedbd.triage.triage_model import TriageModel, default_model

QUERIES, WARM, CLIENTS, LASTING_S = 300, 20, 8, 60
REPLAYED = 1500


def main() -> list[Row]:
    """Measures one way after the other, as each would serve."""
    # Stored reports are encoded by the quickest backend.
    cfg = configuration("backend=openvino_bf16") if has_bfloat16() else configuration()
    corpus: Corpus = instantiate(cfg.dataset)
    vectors = encode_corpus(cfg, corpus, None).vectors
    reports = [report_from_row(row) for row in corpus.reports.itertuples(index=False)]
    history = ReportHistory.of_corpus(corpus, vectors)
    model = default_model()
    chosen = np.random.default_rng(1).permutation(len(reports))[: QUERIES + WARM]
    asked = [replace(reports[row], issue_id="") for row in chosen]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        rows = _building(corpus, vectors, cfg, model, path)
        rows += _stages(history, model.ranker)
        rows += _replayed(history)
        rows += [row for clients in (1, CLIENTS) for row in _served(path, asked, clients)]
        rows += _whole(path, asked, [f"{report.title} {report.description}" for report in reports])
    return rows


def _stages(history: ReportHistory, ranker: ReportRanker) -> list[Row]:
    """The stages of a search behind the encoder, for the latest reports of the corpus."""
    waits: list[list[float]] = []
    for row in range(max(len(history) - QUERIES - WARM, 0), len(history)):
        groups, query = history.known_before(row), history.features[row]
        start = time.perf_counter()
        found = find_candidates(QueryScores(history.store, query, groups))
        middle = time.perf_counter()
        (features,) = candidate_features([found])
        waits.append([middle - start, time.perf_counter() - middle, seconds(partial(ranker.scores, features))])
    figures = 1000 * np.percentile(waits[WARM:], [50, 95], axis=0)
    trees = ranker.model.trees if isinstance(ranker.model, BoostedTrees) else ()
    names = ("first stage", "features of its candidates", f"ranker of {len(trees)} trees")
    rows = []
    for name, (half, high) in zip(names, figures.T, strict=True):
        rows.append(Row("stages of a search", f"{name}, p50", float(half), "ms", note=f"p95 {high:.1f} ms"))
    return rows


def _replayed(history: ReportHistory) -> list[Row]:
    """The latest reports as a backtest replays them: first stage and features, by one process and by all cores."""
    rows = range(max(len(history) - REPLAYED, 0), len(history))

    def replay(num_processes: int) -> None:
        # Something small of each report, so that sending results between processes does not count.
        list(history.replay_with(attrgetter("row"), rows, num_processes=num_processes))

    num_processes = num_available_cores()
    alone = seconds(lambda: replay(1))
    together = seconds(lambda: replay(num_processes))
    section, reference = "replay of a backtest", "one process"
    return [
        Row(section, reference, len(rows) / alone, "reports/s", note=f"{len(rows):,} reports"),
        Row(section, f"{num_processes} processes", len(rows) / together, "reports/s", reference, alone / together),
    ]


def build_index(corpus: Corpus, vectors: np.ndarray, cfg: DictConfig, matching: TriageModel, path: Path) -> float:
    """Writes an index of reports whose vectors are known; returns how many seconds that takes without the last pass."""
    store = IndexStore(path / FILE)
    settings = {name: OmegaConf.to_container(cfg[name], resolve=True) for name in ("encoder", "text", "backend")}
    about = {"settings": json.dumps(settings), "matching": matching.as_json(), "name": corpus.name}
    key = model_key(about["settings"], about["matching"], b"")
    stored = Model(about | {"model": key, "terms": TERMS_VERSION, "boilerplate": "[]", "calibration": "[]"}, b"")
    spent = seconds(lambda: synchronise(store, corpus, stored, lambda _: vectors))
    store.close()
    compact(path / FILE)
    return spent


def _building(corpus: Corpus, vectors: np.ndarray, cfg: DictConfig, matching: TriageModel, path: Path) -> list[Row]:
    spent = build_index(corpus, vectors, cfg, matching, path)
    size = f"{len(corpus):,} reports, {(path / FILE).stat().st_size / 2**20:,.0f} MB"
    return [
        Row("index", "building, vectors at hand", len(corpus) / spent, "reports/s", note=size),
        Row("index", "opening", seconds(lambda: open_index(path, cfg.cache_dir).close()), "s", note=size),
    ]


def _whole(path: Path, asked: Sequence[Report], texts: list[str]) -> list[Row]:
    """The whole search with its reasons beside bm25s, queries one after the other."""
    lexical = bm25s.BM25()
    lexical.index(_words(texts), show_progress=False)
    peer = _row("bm25s alone", lambda report: _search_words(lexical, report), asked, None)
    index = open_index(path, "~/.cache/gedbd")
    return [peer, _row("gedbd", index.search, asked, peer)]


def _row(name: str, search: Callable[[Report], object], asked: Sequence[Report], peer: Row | None) -> Row:
    """Median and 95th percentile of milliseconds."""
    waits = [1000 * seconds(partial(search, report)) for report in asked][WARM:]
    middle, high = np.percentile(waits, [50, 95])
    reference, ratio = ("bm25s alone", peer.value / middle) if peer else ("", None)
    return Row("one search", f"{name}, p50", float(middle), "ms", reference, ratio, f"p95 {high:.1f} ms")


def _words(texts: list[str]) -> object:
    return bm25s.tokenize([text[:2000] for text in texts], stopwords="en", show_progress=False)


def _search_words(index: bm25s.BM25, report: Report) -> object:
    return index.retrieve(_words([f"{report.title} {report.description}"]), k=10, show_progress=False)


def _served(path: Path, asked: Sequence[Report], clients: int) -> list[Row]:
    """``gedbd serve`` in a process of its own, asked by several clients of one other process without a pause."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "gedbd", "serve", f"index={path}", f"port={address.rsplit(':', 1)[1]}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)
    try:
        _wait_for(address)
        waits, failed = _ask(address, asked, clients)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    middle, high = np.percentile(waits, [50, 95])
    note = f"p95 {high:.1f} ms, {len(waits) / LASTING_S:.1f} searches/s for {LASTING_S} s, {failed} failed"
    name = f"{clients} client{'s' if clients > 1 else ''}, p50"
    return [Row("search over HTTP", name, float(middle), "ms", note=note)]


def _wait_for(address: str) -> None:
    for _ in range(600):
        try:
            if requests.get(f"{address}/api/health", timeout=1).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise TimeoutError(f"{address} does not answer")


def _ask(address: str, asked: Sequence[Report], clients: int) -> tuple[list[float], int]:
    """Milliseconds of each search, and how many failed."""
    bodies = [{"title": one.title[:1000], "description": one.description[:20_000]} for one in asked]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(bodies, file)
        file.flush()
        script = Path(__file__).with_name("clients.py")
        command = [sys.executable, str(script), address, str(clients), str(LASTING_S), file.name]
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return told["waits"], told["failed"]
