"""Builds or updates an index from a corpus, an encoder and a triage model."""

import dataclasses
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.encoder_options import DEFAULT_ENCODER, is_base_of_default
from gedbd.configuration.options import encoding_precision
from gedbd.corpora.bug_report import Report, as_table, report_from_row
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.templates import Text
from gedbd.corpora.urls import report_urls
from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.experiments.corpus_reading import print_fields, read_corpus, training_notices
from gedbd.experiments.run_folder import CONFIG, MATCHING, read_saved
from gedbd.io.console import print_line, silence_library_logs, stage
from gedbd.io.locks import sole_process
from gedbd.retrieval.report_ranking.feature_store import TERMS_VERSION
from gedbd.text.cleaning import shared_lines
from gedbd.text.tokens import poorly_covered
from gedbd.triage.storage.folder_store import compact
from gedbd.triage.storage.index_folder import FILE, LOCK
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.postgres_store import PostgresStore
from gedbd.triage.storage.report_store import ReportStore, Version
from gedbd.triage.storage.stored_model import (
    OLDER_ENCODER,
    EncodeReports,
    check_model,
    encoder_folder,
    fitted,
    load_encoder,
    model_key,
    query_encoder,
    with_stored_boilerplate,
)
from gedbd.triage.triage_model import TriageModel, default_model

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder

QUICKEST = "gedbd.encoders.backend.Quickest"
MIN_SAMPLED = 20  # reports, so that a few in another language do not dominate
MAX_SAMPLED = 200
MAX_UNKNOWN = 0.1  # share of tokens: MiniLM has 0 for English, .19 for Japanese and .66 for Chinese
MAX_LETTERS = 0.5  # share of unknown tokens and single letters: MiniLM has .94 for Russian
UNREADABLE = (
    "%s: the encoder does not know the script of many reports: in a sample of %d, %s of the tokens are unknown and %s"
    " are single letters; choose a multilingual encoder, such as encoder=multilingual_e5_small"
)
REPLACE = "for another tracker, use another index; to go on, set replace=true (True in Python)"
MIN_MISSING = 10  # missing or different reports that an update replaces without confirmation
MAX_MISSING = 0.5  # share of the stored reports
UPDATE_TIMEOUT_S = 60.0  # longer than a service waits for a lock
EXPORT = "export: "  # prefix of the source of the tracker's links
PLACEHOLDER = Report("any text")
MAX_ROUNDS = 3  # of encoding new changes of other processes before the store is locked
log = logging.getLogger("gedbd")


class IndexModel(NamedTuple):
    """The settings of a new index."""

    settings: DictConfig  # the sections encoder, text and backend, the last one resolved
    matching: TriageModel  # ranker, probabilities, and results of a backtest
    weights: Path | None  # checkpoint of a trained encoder; None for the downloaded encoder
    cache_dir: str  # folder of cached vectors
    given: GivenEncoder | None = None  # a Python object as the encoder, which the settings then only describe


class Model(NamedTuple):
    """The facts about a new index, see ``ReportStore.about``, and the weights of its encoder, empty if untrained."""

    about: dict[str, str]
    weights: bytes


class Changes(NamedTuple):
    """Numbers of reports, and of pairs."""

    added: int  # new reports, or all reports if the model is new
    updated: int  # reports with any change
    unchanged: int  # reports without changes
    deleted: int  # reports that are not in the corpus
    kept: int = 0  # stored reports that stay: others have changed them during the update, or they are newer
    marked: int = 0  # pairs of reports that only the new corpus marks as duplicates


# Finds reports of which a later state is known than that of a corpus: deleted ones, and ones to keep if stored.
FindLater = Callable[[ReportStore], tuple[Set[str], Set[str]]]


class Contents(NamedTuple):
    """The contents of an index at one time: versions of its model and terms, and the version of each report by id."""

    model: tuple[str | None, ...]
    reports: dict[str, Version]

    @classmethod
    def of(cls, store: ReportStore) -> "Contents":
        """The contents of a store."""
        if store.is_empty:
            return cls(_identity({}), {})
        with store.snapshot():
            return cls(_identity(store.about()), store.contents())

    def without(self, ids: Set[str]) -> "Contents":
        """Leaves reports out."""
        return self._replace(reports={name: version for name, version in self.reports.items() if name not in ids})


@contextmanager
def opened_to_update(location: Path | str) -> Iterator[ReportStore]:
    """Opens the store of an index, created if absent, for an update that no other process may run.

    Args:
        location: The folder, or the address of a server, ``postgresql://user@host:port/database``.

    Raises:
        ValueError: If it cannot be used, or another process is storing a corpus in it.
    """
    if isinstance(location, str):
        with closing(PostgresStore(location, timeout_s=UPDATE_TIMEOUT_S)) as server, server.sole_builder():
            yield server
            server.tidy()
        return
    location.mkdir(0o700, parents=True, exist_ok=True)
    with (
        sole_process(location / LOCK, f"{location}: the index is updated with a corpus"),
        closing(IndexStore(location / FILE, timeout_s=UPDATE_TIMEOUT_S)) as store,
    ):
        yield store
    try:
        compact(location / FILE)
    except OSError as error:
        log.warning("%s: the cache that speeds up opening cannot be written (%s)", location, error)


def check_same_tracker(store: ReportStore, corpus: Corpus, matching: TriageModel) -> None:
    """Raises ValueError if a corpus or a model probably belongs to another index.

    The corpus lacks most stored reports or has different reports with their ids, or a model without a backtest would
    replace one with a backtest.
    """
    stored = Contents.of(store).reports.keys()
    shared = sorted(stored & set(corpus.reports["id"]))
    missing = len(stored) - len(shared)
    if missing >= MIN_MISSING and missing > MAX_MISSING * len(stored):
        raise ValueError(
            f"{store.path}: {missing:,} of its {len(stored):,} reports are not in {corpus.name} and would be deleted;"
            f" {REPLACE}"
        )
    # Trackers number their reports from 1, so different trackers share ids.
    sample = shared[:: -(-len(shared) // MAX_SAMPLED)] if shared else []
    rows = corpus.reports[corpus.reports["id"].isin(set(sample))]
    new = {report.issue_id: report for report in map(report_from_row, rows.itertuples(index=False))}
    old = store.reports(sample)
    # A tracker changes either the title or the date of a report.
    changed = [
        issue_id
        for issue_id, report in old.items()
        if report.title != new[issue_id].title
        and (report.created_at is None or report.created_at != new[issue_id].created_at)
    ]
    if len(changed) >= MIN_MISSING and len(changed) > MAX_MISSING * len(old):
        raise ValueError(
            f"{store.path}: {len(changed):,} of {len(old):,} reports that were compared have another title and date"
            f" in {corpus.name}, for example {changed[0]}, and would be replaced; {REPLACE}"
        )
    model = "{}" if store.is_empty else store.about().get("matching", "{}")
    if not matching.targets and json.loads(model).get("targets"):
        raise ValueError(
            f"{store.path} has the ranker and the probabilities of a backtest, which this update would replace with the"
            f" default ones; to keep them, give that backtest again; {REPLACE}"
        )


def store_corpus(
    location: Path | str, corpus: Corpus, index_model: IndexModel, replace: bool, find_later: FindLater | None = None
) -> Changes:
    """Updates an index to match a corpus; with a new model, all reports are encoded again.

    For ``location`` see ``opened_to_update``, for ``find_later`` ``synchronise``; ``replace`` says whether the corpus
    may be of another tracker.

    Raises:
        ValueError: If the corpus seems to be of another tracker, the index cannot be used, or another process is
            storing a corpus in it.
    """
    with opened_to_update(location) as store:
        if not replace:
            check_same_tracker(store, corpus, index_model.matching)
            template = "" if store.is_empty else store.fact("url_template")
            if template and not corpus.url_template:
                reports = corpus.reports.assign(url=report_urls(corpus.reports, template)[0])
                documents = dataclasses.replace(corpus.documents, table=reports)
                corpus = dataclasses.replace(corpus, documents=documents, url_template=template)
        settings = index_model.settings.copy()
        if not replace and not index_model.matching.targets:
            settings.encoder = _kept_encoder(store, settings.encoder)
        for notice in training_notices(settings.encoder, corpus.reports):
            log.warning("%s: %s", corpus.name, notice)
        # A reference instead of a folder, so that the index can be opened on another machine.
        if "cache_dir" in settings.backend:
            settings.backend.cache_dir = "${cache_dir}"
        plain = json.dumps(OmegaConf.to_container(settings), sort_keys=True)
        settings.cache_dir = index_model.cache_dir
        silence_library_logs()
        model = _build_model(plain, index_model.matching, index_model.weights, corpus, store)
        given = index_model.given
        load = cache(partial(load_encoder, settings, model.weights, cache_dir=settings.cache_dir))
        encode = _corpus_encoder(load if given is None else lambda: given, settings.text, model, store.path)
        changes = synchronise(store, corpus, model, encode, find_later)
        if given is None:  # converts the encoder for searches
            query_encoder(settings.backend, encoder_folder(store, index_model.cache_dir), model.about["model"], load)
        load.cache_clear()  # frees the encoder before the cache of the index is written
    return changes


def _kept_encoder(store: ReportStore, encoder: DictConfig) -> Any:
    """The encoder for an update by the default ``encoder``: that of the index if it was made with the former default.

    Otherwise a new version of gedbd would encode all reports again.
    """
    if encoder.name == DEFAULT_ENCODER and not store.is_empty and not store.weights():
        # Damaged settings are written again.
        with suppress(LookupError, TypeError, ValueError, AttributeError, RecursionError):
            stored = json.loads(store.about()["settings"])["encoder"]
            if is_base_of_default(stored):
                log.warning(OLDER_ENCODER, store.path, stored["name"], DEFAULT_ENCODER)
                return stored
    return encoder


def _build_model(
    settings: str, matching: TriageModel, weights: Path | None, corpus: Corpus, store: ReportStore
) -> Model:
    """Builds the model of an index; an equal stored model is kept, with the texts fitted to its corpus."""
    state = b""
    if weights is not None:
        import torch

        from gedbd.encoders.encoder_weights import read_state

        encoder_state = {key: value for key, value in read_state(weights).items() if key.startswith("encoder.")}
        stream = io.BytesIO()
        torch.save({"state_dict": encoder_state}, stream)
        state = stream.getvalue()
    about = {"settings": settings, "matching": matching.as_json()}
    key = model_key(settings, about["matching"], state)
    about |= {"model": key, "name": corpus.name, "terms": TERMS_VERSION}
    stored = {} if store.is_empty else store.about()
    if stored.get("model") == key:
        check_model(store.path, stored, store.weights())
        return Model(stored | {"terms": TERMS_VERSION}, state)
    cleaning = json.loads(settings)["text"].get("cleaning", {})
    lines: set[str] = set()
    if cleaning.get("boilerplate", "keep") != "keep":
        lines = shared_lines(list(corpus.reports["description"]))
    return Model(about | {"boilerplate": json.dumps(sorted(lines))}, state)


def _corpus_encoder(
    load: Callable[[], "LoadedEncoder | GivenEncoder"], text_settings: DictConfig, model: Model, path: Path | str
) -> Callable[[pd.DataFrame], np.ndarray]:
    """Returns a function that encodes reports with the vector cache; the encoder is loaded at first use."""
    from gedbd.encoders.loaded_encoder import calibration_texts

    def encode(reports: pd.DataFrame) -> np.ndarray:
        encoder = load()
        text: Text = with_stored_boilerplate(instantiate(text_settings), model.about, path)
        texts, _ = text(reports, encoder.tokenizer, encoder.text_tokens)
        warn_of_script(texts, encoder, path)
        if encoder.backend.calibrated:
            if "calibration" not in model.about:
                model.about["calibration"] = json.dumps(calibration_texts(texts))
            encoder.calibration = fitted(path, model.about, "calibration")
        return encoder.encode(texts)

    return encode


def warn_of_script(texts: list[str], encoder: "LoadedEncoder | GivenEncoder", path: Path | str) -> None:
    """Warns if the encoder's fast tokenizer does not cover the script of most texts in a sample."""
    if len(texts) < MIN_SAMPLED or not encoder.tokenizer.is_fast:
        return
    sample = texts[:: -(-len(texts) // MAX_SAMPLED)]
    unknown, letters = poorly_covered(sample, encoder.tokenizer)
    if unknown > MAX_UNKNOWN or unknown + letters > MAX_LETTERS:
        log.warning(UNREADABLE, path, len(sample), f"{unknown:.0%}", f"{letters:.0%}")


def update_index(cfg: DictConfig, console: Console, find_later: FindLater | None = None) -> Changes:
    """Updates an index to match a corpus, with the options of ``conf/index.yaml``; see ``store_corpus``."""
    if cfg.run:
        tested, matching, weights = find_backtest(Path(cfg.run))
    elif OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError(
            "no reports given: set dataset.path=bugs.csv for the default ranker, or run= to a folder"
            " written by gedbd backtest"
        )
    else:
        tested = OmegaConf.create({name: cfg[name] for name in ("dataset", "encoder", "text")})
        tested.backend = cfg.get("backend") or {"_target_": QUICKEST, "precision": encoding_precision()}
        matching, weights = default_model(), None
    out = Path("" if cfg.store else cfg.out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"out={out} is a file: give a new or existing folder")
    dataset = tested.dataset if OmegaConf.is_missing(cfg.dataset, "path") else cfg.dataset
    if cfg.dataset.get("url_template") is not None:
        dataset.url_template = cfg.dataset.url_template
    backend = cfg.get("backend") or tested.backend
    corpus = read_corpus(dataset)
    print_fields(console, corpus)
    for warning in corpus.warnings:
        print_line(console, f"{corpus.name}: {warning}")
    print_line(console, matching.target.statement)
    # Resolved, so that the index keeps the precision of backend=auto on every machine.
    backend = OmegaConf.to_container(backend, resolve=True)
    settings = OmegaConf.create({"encoder": tested.encoder, "text": tested.text, "backend": backend})
    model = IndexModel(settings, matching, weights, cfg.cache_dir)
    return store_corpus(cfg.store or out, corpus, model, cfg.replace, find_later)


def find_backtest(folder: Path) -> tuple[DictConfig, TriageModel, Path | None]:
    """A backtest's configuration, model, and checkpoint of its encoder, or None.

    Raises:
        ValueError: If the folder is not a finished backtest, or its run is missing.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give a folder written by gedbd backtest")
    if not (folder / MATCHING).is_file():
        below = sorted(folder.rglob(MATCHING), key=lambda file: file.stat().st_mtime)
        run = f" run={folder}" if (folder / CONFIG).is_file() else ""
        advice = f"run gedbd backtest{run} and give the folder that it writes"
        if below:
            advice = f"give a backtest below it; the newest of {len(below):,} is run={below[-1].parent}"
        raise ValueError(f"{folder} is not a finished backtest: it has no {MATCHING}; {advice}")
    cfg = read_saved(folder)
    weights = None
    if cfg.run:
        from gedbd.experiments.run_folder import find_run  # it imports torch

        _, weights = find_run(Path(cfg.run), cfg.get("weights", "best"))
    text = (folder / MATCHING).read_text(encoding="utf-8", errors="replace")
    return cfg, TriageModel.from_json(text, str(folder)), weights


@stage("bring the index up to date")
def synchronise(
    store: ReportStore, corpus: Corpus, model: Model, encode: EncodeReports, find_later: FindLater | None = None
) -> Changes:
    """Adds, updates and deletes reports until the index equals the corpus; links from other sources stay.

    All changes are one transaction. Changes that other processes make during the update are newer, and stay. If the
    model or the version of the terms is new, all reports are written again. What ``find_later`` finds, before reports
    are encoded and again within the transaction, stays as it is stored, or is deleted.

    Raises:
        ValueError: If another process has replaced the model during the update.
        StoreUnavailable: If the store cannot be used.
    """
    find_later = find_later or (lambda _: (set(), set()))
    before = Contents.of(store)
    is_new_model = before.model != _identity(model.about)
    gone, newer = find_later(store)
    stays = gone | (newer & before.reports.keys())
    before = before.without(newer)
    reports = {report.issue_id: report for report in map(report_from_row, corpus.reports.itertuples(index=False))}
    known = {} if is_new_model else before.reports
    hashes = {issue_id: version.content for issue_id, version in known.items()}
    differing = [issue_id for issue_id, report in reports.items() if hashes.get(issue_id) != report.content_hash]
    fresh = [issue_id for issue_id in differing if issue_id not in stays]
    vectors: dict[str, np.ndarray] = {}
    rows = corpus.reports[corpus.reports["id"].isin(set(fresh))]
    # Before the store is locked, as it takes long.
    _encode(encode, [reports[issue_id] for issue_id in fresh], rows, vectors)
    if is_new_model:
        _encode_later(store, before, encode, vectors, MAX_ROUNDS)
    with store.transaction():
        now = Contents.of(store)
        if now.model != before.model:
            raise ValueError(
                f"another process replaced the model of {store.path} in the meantime: run this command again"
            )
        gone, newer = find_later(store)
        reports = {issue_id: report for issue_id, report in reports.items() if issue_id not in gone}
        before = before.without(newer)
        kept = _changed(before, now)
        later = _encode_later(store, before, encode, vectors, 1) if is_new_model else {}
        order = [id_ for id_ in fresh if id_ in reports and (id_ not in kept or id_ in later)]  # as in the corpus
        written = {issue_id: later.get(issue_id, reports[issue_id]) for issue_id in order} | later
        deleted = before.reports.keys() - reports.keys() - kept
        # Reports with a new address or date of resolution, which are not encoded.
        others = set() if is_new_model else before.reports.keys() & reports.keys() - written.keys() - kept
        rewritten = [reports[id_] for id_ in others if not before.reports[id_].has_rest_of(reports[id_])]
        if is_new_model:
            if not vectors:  # an empty corpus
                _encode(encode, [PLACEHOLDER], as_table([PLACEHOLDER]), vectors)
            dim = len(next(iter(vectors.values())))
            store.write_model(model.about | {"dim": str(dim)}, model.weights)
        store.delete(deleted)
        store.write_reports(list(written.values()), [vectors[report.content_hash] for report in written.values()])
        store.write_not_encoded(rewritten)
        template = json.dumps(corpus.documents.template)
        store.write_about({"url_template": corpus.url_template or "", "template": template})
        former = set(store.clear_links(EXPORT))
        links = _links(corpus)
        store.write_links(links)
    from_corpus = written.keys() - later.keys()
    added = len(from_corpus - known.keys())
    updated = len(from_corpus & known.keys()) + len(rewritten)
    unchanged = len(reports.keys() - kept) - added - updated
    marked = len({(first, second) for first, second, _ in links} - former)
    return Changes(added, updated, unchanged, len(deleted), len(kept & now.reports.keys()), marked)


def _identity(about: dict[str, str]) -> tuple[str | None, ...]:
    return about.get("model"), about.get("terms")


def _encode(
    encode: EncodeReports, reports: Sequence[Report], table: pd.DataFrame, vectors: dict[str, np.ndarray]
) -> None:
    """Adds the vectors of reports, which are the rows of a table, to ``vectors`` by their content hash."""
    if reports:
        rows = encode(table.reset_index(drop=True))
        vectors.update({report.content_hash: vector for report, vector in zip(reports, rows, strict=True)})


def _changed(before: Contents, now: Contents) -> set[str]:
    """Ids of reports that other processes have added, changed or deleted."""
    all_ids = before.reports.keys() | now.reports.keys()
    return {issue_id for issue_id in all_ids if before.reports.get(issue_id) != now.reports.get(issue_id)}


def _encode_later(
    store: ReportStore, before: Contents, encode: EncodeReports, vectors: dict[str, np.ndarray], max_rounds: int
) -> dict[str, Report]:
    """Encodes reports that other processes have written during the update; returns them by id."""
    for _ in range(max_rounds):
        now = Contents.of(store)
        changed = _changed(before, now)
        stored = store.reports(list(changed))
        later = {issue_id: stored[issue_id] for issue_id in now.reports if issue_id in changed}
        fresh = [report for report in later.values() if report.content_hash not in vectors]
        _encode(encode, fresh, as_table(fresh), vectors)
        if not fresh:
            break
    return later


def _links(corpus: Corpus) -> list[tuple[str, str, str]]:
    """The tracker's links with their sources; without any, a link from each report of a group to its master."""
    rows = np.arange(len(corpus))
    masters = pd.DataFrame({"query": rows, "document": corpus.group, "source": "group"})
    links = masters[corpus.group != rows] if corpus.links is None else corpus.links.table
    ids = corpus.reports["id"].to_numpy()
    named = zip(ids[links["query"]], ids[links["document"]], links["source"], strict=True)
    return [(str(first), str(second), f"{EXPORT}{source}") for first, second, source in named]
