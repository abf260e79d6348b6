"""Stores the reports of a tracker and searches them: ``gedbd.Index``."""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from gedbd.api.calls import default_cache_dir, long_call, plain_errors
from gedbd.api.encoder import AnyEncoder, as_encoder
from gedbd.configuration.encoder_options import DEFAULT_ENCODER
from gedbd.corpora.bug_report import Filters, Match, Report, report_from_json
from gedbd.corpora.corpus import Corpus
from gedbd.encoders.given_encoder import is_given
from gedbd.experiments.run_folder import saved_options
from gedbd.triage.report_text import report_from_text
from gedbd.triage.storage.postgres_connections import is_server, server_of

if TYPE_CHECKING:
    from gedbd.api.backtesting import BacktestResult
    from gedbd.triage.index_building import Changes, IndexModel
    from gedbd.triage.stored_index import StoredIndex


Query = str | Mapping[str, Any] | Report


class Index:
    """A searchable index of the reports of one tracker, created by ``build`` or ``open``.

    It is the index of ``gedbd index``, ``gedbd search`` and ``gedbd serve``, which may use it at the same time. All
    methods are thread-safe, and changes are on disk when they return. While an index is open, NumPy's linear algebra
    runs on one thread, because encoders use several. An index is a context manager.

    Attributes:
        path: The folder, or the address of the server without the password.
        changes: Numbers of reports that ``build`` ``added``, ``updated``, left ``unchanged``, ``deleted`` and ``kept``,
            and of pairs that it ``marked`` as duplicates; None after ``open``.

    Example:
        >>> import gedbd
        >>> with gedbd.Index.build(gedbd.load_corpus("demo"), "my-index", "tiny") as index:
        ...     matches = index.search("Crash when I paste a picture")
        >>> len(matches)
        10
        >>> 0 < matches[0].probability < 1
        True
    """

    def __init__(self, path: str | Path, stored: "StoredIndex", changes: "Changes | None" = None) -> None:
        self.path: Path | str = server_of(path) if is_server(path) else Path(path)
        self.changes = changes
        self._stored = stored

    @classmethod
    def open(
        cls, path: str | Path, encoder: AnyEncoder | None = None, *, cache_dir: str | Path | None = None
    ) -> "Index":
        """Opens an index.

        Args:
            path: The folder, or the address of a PostgreSQL database, ``postgresql://user@host/database``.
            encoder: The encoder of an index that was built with a Python object; other encoders are in the index.
            cache_dir: Folder of 8-bit models; None for the commands' folder.

        Raises:
            ValueError: If there is no index, it is damaged, or it was built with another encoder.
        """
        from gedbd.triage.stored_index import open_index

        with plain_errors():
            given = None if encoder is None else as_encoder(encoder)._given
            if encoder is not None and given is None:
                named = server_of(path) if is_server(path) else path
                raise ValueError(f"{named} stores its own encoder: set encoder= only for an encoder object")
            folder, url = (".", path) if is_server(path) else (path, None)
            return cls(path, open_index(folder, str(cache_dir or default_cache_dir()), given=given, url=url))

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        path: str | Path,
        encoder: AnyEncoder | None = None,
        *,
        backtest: "BacktestResult | str | Path | None" = None,
        replace: bool = False,
    ) -> "Index":
        """Creates an index, or updates it to a corpus, and opens it.

        An update encodes new and changed reports only, or all reports with another encoder or backtest.

        Args:
            corpus: All reports of the tracker, see ``load_corpus``; other stored reports are deleted.
            path: The folder, or the address of a PostgreSQL database, ``postgresql://user@host/database``.
            encoder: An ``Encoder`` or its ``model`` argument; None for the encoder of the backtest, or ``minilm``.
            backtest: A result of ``backtest``, or the folder of a backtest, whose encoder, ranker, probabilities and
                threshold are used; None for the default ranker, with ``suggest_from=None``.
            replace: Whether most stored reports may be deleted, such as those of another tracker.

        Raises:
            ValueError: If the folder or an option is invalid, or most stored reports would be deleted without
                ``replace``.
            OSError: If it cannot be written.
        """
        from gedbd.triage.index_building import store_corpus

        with long_call():
            if not is_server(path) and Path(path).exists() and not Path(path).is_dir():
                raise ValueError(f"{path} is a file: give a new or existing folder")
            model = index_model(encoder, backtest)
            changes = store_corpus(path if is_server(path) else Path(path), corpus, model, replace)
        given = None if model.given is None else model.given.given
        return cls(path, cls.open(path, given, cache_dir=model.cache_dir)._stored, changes)

    def __len__(self) -> int:
        """Number of reports."""
        return len(self._stored)

    def __repr__(self) -> str:
        return f"Index({self.name!r}: {len(self):,} reports in {os.fspath(self.path)})"

    def __enter__(self) -> "Index":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self._stored.name

    @property
    def suggest_from(self) -> float | None:
        """The lowest probability of automatic suggestions; None if no backtest found one."""
        return self._stored.matching.target.suggest_from

    def search(
        self,
        query: Query,
        top_k: int = 10,
        *,
        component: str | None = None,
        created_from: str | datetime | None = None,
        created_before: str | datetime | None = None,
    ) -> list[Match]:
        """Finds the duplicate groups that a report may belong to, best first.

        Args:
            query: A text, whose first line is the title; a ``Report``; or a dictionary of its fields, such as
                ``{"title": "Crash", "description": "...", "component": "Editor"}``.
            top_k: Number of groups, at most 50.
            component: Only reports with this component, even if they have others too.
            created_from: Only reports created at this time or later, such as ``2024-01-31``.
            created_before: Only reports created before this time.

        Returns:
            Matches with ``probability``, ``master`` (the oldest report of the group), ``best`` (the most similar one),
            ``members`` (ids) and ``explanation`` (``reasons``, ``terms``, ``fields``, ``sentences``).

        Raises:
            ValueError: If the query has no text or an unknown field, or an argument is out of range.
        """
        filters = Filters.of_texts(_text(created_from), _text(created_before), component)
        with plain_errors():
            return self._stored.search(_report(query), top_k, filters)

    def add(self, reports: Iterable[Mapping[str, Any] | Report]) -> dict[str, str]:
        """Adds or updates reports, all of them or none.

        Args:
            reports: Reports with ``issue_id``, or dictionaries of their fields. Without a date, a report keeps the
                stored date or gets the current time.

        Returns:
            For each id ``added``, ``updated`` or ``unchanged``.

        Raises:
            ValueError: If a report has no id or no text.
        """
        with plain_errors():
            return self._stored.add([_report(report) for report in reports])

    def remove(self, ids: Iterable[str]) -> int:
        """Deletes reports, ignores unknown ids, and returns the number of deleted reports."""
        ids = [ids] if isinstance(ids, str) else ids
        with plain_errors():
            return sum(self._stored.delete(issue_id) for issue_id in ids)

    def export_faiss(self, path: str | Path) -> tuple[Path, Path]:
        """Writes the vectors of all reports as an index of faiss, and their ids.

        Args:
            path: The file of an ``IndexFlatIP``, such as ``my.faiss``, whose inner products are cosines.

        Returns:
            The file, and ``my.faiss.ids.txt`` with the id of each row, one per line.

        Raises:
            OSError: If they cannot be written.
        """
        from gedbd.io.table_files import write_faiss

        with plain_errors():
            return write_faiss(Path(path), *self._stored.vectors())

    def close(self) -> None:
        """Closes the files."""
        self._stored.close()


def _report(query: Query) -> Report:
    """A report from a text or a dictionary."""
    if isinstance(query, str):
        return report_from_text(query)
    if isinstance(query, Report):
        return query
    return report_from_json({name: _text(value) for name, value in query.items()})


def _text(value: Any) -> Any:
    """A date as text; other values as they are."""
    return value.isoformat() if isinstance(value, datetime) else value


def index_model(encoder: AnyEncoder | None, backtest: "BacktestResult | str | Path | None") -> "IndexModel":
    """The encoder, text and backend of a new index, and the model of a backtest or the default one.

    The encoder is that of the backtest, unless it is a Python object.
    """
    from gedbd.triage.index_building import IndexModel, find_backtest
    from gedbd.triage.triage_model import default_model

    if backtest is None:
        encoder = as_encoder(encoder or DEFAULT_ENCODER)
        cfg = OmegaConf.create()
        encoder._put_into(cfg)
        return IndexModel(_sections(cfg), default_model(), encoder._weights, cfg.cache_dir, encoder._given)
    given = None if encoder is None else as_encoder(encoder)._given
    if isinstance(backtest, str | Path):
        cfg, matching, weights = find_backtest(Path(backtest))
    else:
        cfg = OmegaConf.create(saved_options(backtest._cfg))
        matching = backtest._measured.matching
        weights = backtest.encoder._weights
        given = given or (backtest.encoder._given if encoder is None else None)
    if is_given(cfg.encoder):
        if given is None:
            raise ValueError(f"the backtest used {cfg.encoder.name}, a Python object: give it as encoder=")
        given.check(cfg.encoder, "the backtest")
    elif encoder is not None:
        raise ValueError("the backtest sets the encoder: leave out encoder= or backtest=")
    return IndexModel(_sections(cfg), matching, weights, default_cache_dir(), given)


def _sections(cfg: DictConfig) -> DictConfig:
    """The sections that an index stores."""
    return OmegaConf.create({name: cfg[name] for name in ("encoder", "text", "backend")})
