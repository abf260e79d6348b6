"""Measures suggestions on a tracker's history: ``gedbd.backtest``."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.api.calls import Options, long_call, option_words, own_random_numbers, plain_errors
from gedbd.api.corpora import dataset_options
from gedbd.api.encoder import AnyEncoder, Encoder, as_encoder
from gedbd.configuration.encoder_options import DEFAULT_ENCODER
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import Corpus

if TYPE_CHECKING:
    from gedbd.experiments.prepare import EncodedCorpus
    from gedbd.triage.backtesting.measured_suggestions import Backtest


@dataclass(frozen=True, repr=False)
class BacktestResult:
    """The result of a backtest.

    Attributes:
        corpus: The reports.
        encoder: The encoder.
        warnings: Warnings about the data, in sentences.
    """

    corpus: Corpus
    encoder: Encoder
    warnings: tuple[str, ...]
    _measured: "Backtest"
    _cfg: DictConfig

    def __repr__(self) -> str:
        return f"BacktestResult({self.corpus.name!r}: {self.statement})"

    @property
    def targets(self) -> pd.DataFrame:
        """One row per precision target: its threshold, chosen on validation, and the results on test.

        The columns are ``target``, ``threshold`` (NaN if there is none), ``suggestions``, ``right``, ``precision``,
        ``coverage`` (the share of all duplicates), ``suggestion_rate``, ``status`` and more; the ends of intervals are
        in columns that end in ``_low`` and ``_high``.
        """
        return self.tables["targets"]

    @property
    def thresholds(self) -> pd.DataFrame:
        """Precision, coverage and suggestion rate on test, one row per threshold."""
        return self.tables["thresholds"]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables of the page ``report.html``, by name.

        ``targets``, ``search`` (share of duplicates with a right match in the top k), ``thresholds``,
        ``reliability``, ``hubs``, ``unknown``, ``right`` and ``wrong``.
        """
        return self._measured.tables

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the probabilities on test."""
        return self._measured.calibration_error

    @property
    def statement(self) -> str:
        """The result for the precision target, in a sentence."""
        return self._measured.matching.target.statement

    def save(self, folder: str | Path) -> Path:
        """Writes the same folder as ``gedbd backtest``, for ``gedbd index run=`` and ``Index.build``.

        Args:
            folder: The folder, created if absent.

        Returns:
            The page in it, ``report.html``.

        Raises:
            OSError: If it cannot be written.
        """
        from gedbd.triage.backtesting.backtest_run import keep_backtest

        command = f"gedbd.backtest(corpus, encoder={self.encoder.name!r})"
        with plain_errors():
            page, _ = keep_backtest(Path(folder), self._cfg, self.corpus, self._measured, command)
        return page


def backtest(
    corpus: Corpus,
    encoder: AnyEncoder | None = None,
    *,
    target_precision: float = 0.7,
    confidence_level: float = 0.9,
    seed: int = 0,
    options: Options = (),
) -> BacktestResult:
    """Measures suggestions on a replay of a tracker's history.

    Does the same as ``gedbd backtest``: trains a ranker and probabilities on the oldest 80% of the reports, chooses a
    threshold for each precision target on the latest quarter of these, and tests it on the newest 20%.

    Args:
        corpus: The reports, see ``load_corpus``.
        encoder: An ``Encoder`` or its ``model`` argument; None for ``minilm``.
        target_precision: Desired share of right suggestions; .5, .6, .7, .8 and .9 are measured too.
        confidence_level: Confidence level of the lower bound of the precision on validation.
        seed: Seed of all random choices.
        options: Further options as on the command line, ``["ranker.base=null", "max_replayed=1000"]``, or as a
            dictionary: ``{"ranker.base": None, "max_replayed": 1000}``.

    Returns:
        Tables, thresholds, and the model for an index.

    Raises:
        ValueError: If an option is unknown, or the corpus has no duplicates to learn from.

    Example:
        >>> import gedbd
        >>> result = gedbd.backtest(gedbd.load_corpus("demo"), "tiny", options=["max_replayed=60"])
        >>> list(result.targets["target"])
        [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    words = ["dataset=demo", f"target_precision={target_precision}", f"confidence_level={confidence_level}"]
    with long_call():
        from gedbd.experiments.prepare import prepare_corpus
        from gedbd.experiments.run_folder import check_corpus, run_weights
        from gedbd.io.console import silence_library_logs
        from gedbd.triage.backtesting.backtest_run import check_backtest, measure_history
        from gedbd.triage.backtesting.judgements import with_accepted

        cfg = compose_options("backtest", [*words, f"seed={seed}", *option_words(options)])
        encoder = as_encoder(encoder or DEFAULT_ENCODER)
        weights = None
        if encoder._run is not None:
            cfg.run = str(encoder._run)
            cfg.weights = encoder._checkpoint
            weights = run_weights(cfg)
        encoder._put_into(cfg)
        check_backtest(cfg)
        cfg.dataset = dataset_options(corpus)
        silence_library_logs()
        with own_random_numbers(cfg.seed):
            prepared = prepare_corpus(cfg, corpus)
            if encoder._run is not None:
                check_corpus(encoder._run, prepared.corpus)
            warnings = list(prepared.warnings)
            corpus = prepared.corpus
            if cfg.verdicts:
                corpus, text = with_accepted(corpus, prepared.parts, Path(cfg.verdicts))
                warnings.append(text)
            encode = partial(_encode, cfg, corpus, encoder)
            measured = measure_history(cfg, corpus, prepared.parts, weights, encode, warnings.append)
        return BacktestResult(corpus, encoder, tuple(warnings), measured, cfg)


def _encode(cfg: DictConfig, corpus: Corpus, encoder: Encoder, weights: Path | None) -> "EncodedCorpus":
    """Encodes all reports, with a Python object or as the command does."""
    from gedbd.experiments.prepare import EncodedCorpus, encode_corpus

    encoder_object = encoder._given
    if encoder_object is None:
        return encode_corpus(cfg, corpus, weights)
    texts, warnings = instantiate(cfg.text)(corpus.reports, encoder_object.tokenizer, encoder_object.text_tokens)
    return EncodedCorpus(encoder_object.encode(texts), warnings)
