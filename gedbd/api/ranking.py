"""Ranks the earlier reports for each duplicate: ``gedbd.rank``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.api.calls import Options, long_call, option_words, own_random_numbers
from gedbd.api.encoder import AnyEncoder, as_encoder
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.ranking_tasks import TOP_K, Ranking, RankingTask, per_query
from gedbd.retrieval.scorers.scorer_contract import Scorer

PROTOCOLS = {"earlier": "earlier", "test_pool": "test_pool_alone"}  # name: file in conf/protocol


class Metric(NamedTuple):
    """A mean over queries.

    Attributes:
        value: The mean.
        low: Lower end of its 95% interval, by a bootstrap over duplicate groups.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class RankingResult:
    """A scorer's ranks for the duplicates of a split.

    Attributes:
        name: Name of the scorer.
        corpus: The ranked reports.
        part: ``val`` or ``test``.
        protocol: ``earlier`` or ``test_pool``.
        scorer: The fitted scorer.
        warnings: Warnings about the data, in sentences.
    """

    name: str
    corpus: Corpus
    part: str
    protocol: str
    scorer: Scorer
    warnings: tuple[str, ...]
    _task: RankingTask
    _ranking: Ranking

    def __len__(self) -> int:
        """Number of queries."""
        return len(self._task)

    def __repr__(self) -> str:
        means = [f"{name} {self.metrics[name].value:.3f}" for name in ("rr@10", "mrr") if name in self.metrics]
        return f"RankingResult({self.name!r}: {len(self):,} queries of {self.part}, {', '.join(means)})"

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Means over queries by name: ``rr@k`` (share with a duplicate in the first k), ``mrr``, ``map`` and others."""
        from gedbd.evaluation.significance import mean_interval

        values = per_query(self._ranking.queries)
        cluster = self.corpus.group[self._ranking.queries["query"]]
        columns = {str(name): column.to_numpy() for name, column in values.items()}
        return {name: Metric(float(column.mean()), *mean_interval(column, cluster)) for name, column in columns.items()}

    @cached_property
    def queries(self) -> pd.DataFrame:
        """One row per query: ``id``, ``group`` (id of its oldest report), ``rank`` (0: not found) and each metric."""
        table = self._ranking.queries
        rows = table["query"].to_numpy()
        ids = self._ids
        table_with_ids = pd.DataFrame({"id": ids[rows], "group": ids[self.corpus.group[rows]], "rank": table["rank"]})
        return table_with_ids.join(per_query(table))

    @cached_property
    def top(self) -> pd.DataFrame:
        """The best 100 groups of each query: ``query`` and ``candidate`` (ids), ``place`` and ``score``."""
        top = self._ranking.top
        return top.assign(query=self._ids[top["query"]], candidate=self._ids[top["candidate"]])

    @property
    def _ids(self) -> np.ndarray:
        return self.corpus.reports["id"].to_numpy(dtype=object)

    def save_trec(self, folder: str | Path) -> tuple[Path, Path]:
        """Writes the ranking and the relevant reports as TREC files.

        Args:
            folder: The folder, created if absent.

        Returns:
            ``PART.NAME.run`` and ``PART.qrels``; ``README.txt`` beside them explains their use.

        Raises:
            OSError: If they cannot be written.
        """
        from gedbd.evaluation.trec import GUIDE, write_qrels, write_run
        from gedbd.io.files import write_text
        from gedbd.retrieval.ranking_tasks import file_suffix

        stem = f"{self.part}{file_suffix(self.protocol)}"
        run = Path(folder) / f"{stem}.{self.name}.run"
        qrels = Path(folder) / f"{stem}.qrels"
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_run(run, self._ranking, self.corpus.reports["id"], self.name)
        write_qrels(qrels, self._task, self.corpus.reports["id"])
        write_text(Path(folder) / "README.txt", GUIDE)
        return run, qrels


def rank(
    corpus: Corpus,
    scorer: str | Scorer = "bm25",
    *,
    part: str = "test",
    encoder: AnyEncoder | None = None,
    protocol: str = "earlier",
    top_k: Sequence[int] = TOP_K,
    seed: int = 0,
    options: Options = (),
) -> RankingResult:
    """Fits a scorer on the older reports of a corpus, and ranks the candidates of each duplicate of a split.

    The same as the ranking of ``gedbd baseline``: the splits are the oldest 60% of the reports (train), the next 20%
    (val) and the newest 20% (test). Queries are the reports of the split with an earlier duplicate.

    Args:
        corpus: The reports, see ``load_corpus``.
        scorer: A name of ``gedbd baseline``, such as ``bm25``, ``tfidf``, ``frozen`` (cosine of vectors), ``fusion`` (a
            learned sum) or ``boosted``; or an object with ``fit(inputs)`` and ``scores(rows)``, see ``Scorer``.
        part: ``val`` or ``test``.
        encoder: Encoder for scorers that use vectors: an ``Encoder`` or its ``model`` argument; None for ``minilm``.
        protocol: ``earlier`` ranks groups of all earlier reports; ``test_pool`` ranks the reports of the split among
            themselves, as many papers do, which gives higher metrics.
        top_k: The k of ``rr@k`` and ``map@k``, ascending.
        seed: Seed of all random choices.
        options: Further options as on the command line, such as ``["split.test_from=2015-01-31"]``, or as a dictionary:
            ``{"split.test_from": "2015-01-31"}``.

    Returns:
        The ranks, their metrics with intervals, and the fitted scorer.

    Raises:
        ValueError: If a name or an option is unknown, or the split has no queries.

    Example:
        >>> import gedbd
        >>> result = gedbd.rank(gedbd.load_corpus("demo"), "bm25")
        >>> result
        RankingResult('bm25': 39 queries of test, rr@10 0.385, mrr 0.214)
        >>> result.metrics["rr@10"].low < result.metrics["rr@10"].value
        True
    """
    if part not in ("val", "test"):
        raise ValueError(f"part={part!r} is unknown: choose val or test")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r} is unknown: choose {' or '.join(PROTOCOLS)}")
    words = [f"protocol={PROTOCOLS[protocol]}", f"ranking.parts=[{part}]", f"ranking.top_k={list(top_k)}"]
    words += ["dataset=demo", f"part={part}", f"seed={seed}", *option_words(options)]
    with long_call():
        from gedbd.experiments.prepare import prepare_corpus
        from gedbd.experiments.run_folder import check_corpus
        from gedbd.io.console import silence_library_logs
        from gedbd.retrieval.ranking_tasks import rank as rank_queries

        name = scorer if isinstance(scorer, str) else type(scorer).__name__
        cfg = compose_options("baseline", [f"name={name}", *words])
        run = _set_encoder(cfg, encoder)
        _check_scorer(cfg, scorer, protocol)
        silence_library_logs()
        with own_random_numbers(cfg.seed):
            prepared = prepare_corpus(cfg, corpus)
            if run is not None:
                check_corpus(run, prepared.corpus)
            task = prepared.queries.get(part, {}).get(protocol)
            if task is None:
                raise ValueError(f"{corpus.name}: {prepared.warnings[-1]}")
            fitted = instantiate(cfg.baselines[cfg.name], _convert_="object") if isinstance(scorer, str) else scorer
            fitted.fit(prepared.scorer_inputs(part))
            ranking = rank_queries(task, fitted)
        warnings = (*prepared.warnings, *getattr(fitted, "warnings_", ()))
        return RankingResult(name, prepared.corpus, part, protocol, fitted, warnings, task, ranking)


def _set_encoder(cfg: DictConfig, encoder: AnyEncoder | None) -> Path | None:
    """Sets the encoder in the options of ``gedbd baseline``; returns the folder of its run, or None."""
    if encoder is None:
        return None
    encoder = as_encoder(encoder)
    if encoder._run is not None:
        from gedbd.experiments.run_folder import use_run

        cfg.baselines.frozen.checkpoint = str(use_run(cfg, encoder._run, encoder._checkpoint))
    encoder._put_into(cfg)
    if encoder._given is not None:
        cfg._set_flag("allow_objects", True)
        cfg.encoder = encoder._given
    return encoder._run


def _check_scorer(cfg: DictConfig, scorer: str | Scorer, protocol: str) -> None:
    """Raises ValueError if a scorer is unknown, lacks a method, or cannot rank by the protocol."""
    from gedbd.experiments.baseline_run import check_baseline

    if isinstance(scorer, str):
        check_baseline(cfg)
    elif not (callable(getattr(scorer, "fit", None)) and callable(getattr(scorer, "scores", None))):
        raise ValueError(f"{type(scorer).__name__} is not a scorer: give a name, or an object with fit() and scores()")
    elif getattr(scorer, "earlier_only", False) and protocol == "test_pool":
        raise ValueError(f"{cfg.name} scores earlier reports only, but a pool holds later ones: set protocol='earlier'")


def compare(first: RankingResult, second: RankingResult) -> pd.DataFrame:
    """Differences of the metrics of two scorers on the same queries, with intervals and p values.

    The same as ``gedbd compare`` for two runs of one seed.

    Args:
        first: A result of ``rank``.
        second: Another result for the same reports, split and protocol.

    Returns:
        One row per metric: ``metric``, ``first`` and ``second`` (values), ``difference`` (first minus second) with
        ``difference_low`` and ``difference_high`` (95%, a paired bootstrap over duplicate groups), ``p_value``
        (Wilcoxon's signed-rank test over queries) and ``p_mann_whitney`` (which assumes independent samples).

    Raises:
        ValueError: If the queries or the protocols differ.

    Example:
        >>> import gedbd
        >>> corpus = gedbd.load_corpus("demo")
        >>> table = gedbd.compare(gedbd.rank(corpus, "tfidf"), gedbd.rank(corpus, "bm25"))
        >>> float(table.set_index("metric").loc["mrr", "difference"].round(3))
        0.07
    """
    from gedbd.experiments.report.run_comparison import Key, compare_queries, join_results

    if first.protocol != second.protocol or first.part != second.part:
        raise ValueError(
            f"{first.name} ranked {first.part} by {first.protocol}, {second.name} {second.part} by {second.protocol}:"
            " give results with the same part and protocol"
        )
    tables = [result.queries.drop(columns="rank") for result in (first, second)]
    joined = join_results((first.name, second.name), tables[0], tables[1])
    return pd.DataFrame(compare_queries(first.protocol, {Key(0, 0): joined})).drop(columns="by_seed")
