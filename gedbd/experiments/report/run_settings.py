"""Groups runs that differ only by seed into settings, and names each by the options that were typed for it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gedbd.configuration.command_words import option_of, path_value
from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.significance import f1_interval, interval_columns
from gedbd.experiments.run_folder import Run
from gedbd.retrieval.ranking_tasks import EARLIER, per_query

# Options that change no result, or that the corpus (name and contents) or the name of a baseline implies.
NO_SETTING = (
    *("seed", "seeds", "ckpt_path", "cache_dir", "data_dir", "json", "logger", "debug", "name", "part"),
    *("dataset", "dataset.name", "dataset.path", "trainer.enable_model_summary", "trainer.enable_progress_bar"),
    *("trainer.log_every_n_steps", "trainer.profiler"),
)
NO_SETTING_BELOW = ("logger.", "hydra.", "debug.")
IN_BASE = ("encoder", "graph", "fusion")  # the first words of a label often imply these
CONTENTS = "dataset.contents"  # named only where nothing else differs
CONTENTS_SHOWN = 8  # characters of the corpus's fingerprint


@dataclass(frozen=True)
class Setting:
    """One setting and its runs, one per seed."""

    base: str  # encoder and method, or the baseline
    # every option that was typed for some run of its corpus and kind, with its value; "" for a default
    options: dict[str, str]
    named: list[str]  # the options that its label names: those in which settings of its corpus and kind differ
    runs: list[Run]  # one run of each seed, in the order of the seeds
    repeated: list[Run] = field(default_factory=list)  # older runs of the same seeds, which are left out

    @property
    def label(self) -> str:
        """Its name, unique among the settings of one corpus."""
        return self.label_without()

    def label_without(self, *names: str) -> str:
        """Its name without some of its options; ``k1=1.2`` stands for ``baselines.bm25.k1=1.2``."""
        words = [self.base]
        for name in self.named:
            if self.options[name] and name not in names:
                parts = name.split(".")
                short = ".".join(parts[2:]) if parts[0] == "baselines" else name
                words.append(f"{short}={self.options[name]}")
        return ", ".join(words)

    def name_of(self, method: str) -> str:
        """Display name of one of its methods; its own method has the name of the setting."""
        return self.label if method == self.methods[0] else f"{display_name(method)} of {self.label}"

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return [int(run.config.seed) for run in self.runs]

    @property
    def corpus(self) -> str:
        """Name of the corpus."""
        return self.runs[0].corpus

    @property
    def is_baseline(self) -> bool:
        """Whether its runs are those of a baseline."""
        return self.runs[0].is_baseline

    @property
    def split(self) -> str:
        """Name of the split: ``time``, ``group``, ``fold`` or ``pair``."""
        return str(self.runs[0].config.split._target_).rsplit(".", 1)[-1].removesuffix("Split").lower()

    @property
    def methods(self) -> list[str]:
        """Ids of the methods that were scored, the setting's own first; ``always_duplicate`` is left out."""
        return list(self.runs[0].results["method"][:-1])  # the last row is always_duplicate

    def pair_metrics(self, method: str) -> dict[str, float]:
        """Means over seeds of the metrics on pairs, and the interval of the mean of F1 over duplicate groups."""
        rows = [run.results[run.results["method"] == method].iloc[0] for run in self.runs]
        values = {name: float(np.mean([row[name] for row in rows])) for name in rows[0].index if name != "method"}
        low, high = f1_interval(*self._predictions(method))
        return values | {"f1_low": low, "f1_high": high}

    def confusion(self, method: str) -> np.ndarray:
        """``(2, 2)`` counts of the reported pairs by label and prediction, 0 before 1; means over seeds."""
        predicted, label, *_ = self._predictions(method)
        return np.bincount(2 * label + predicted, minlength=4).reshape(2, 2) / len(self.runs)

    def ranks(self, method: str, protocol: str = EARLIER) -> pd.DataFrame | None:
        """Rank, reachability and metrics of every query and seed."""
        tables = [run.queries_of(protocol) for run in self.runs]
        if any(table is None for table in tables):
            return None
        all_ranks = pd.concat([table for table in tables if table is not None])
        all_ranks = all_ranks[all_ranks["method"] == method].reset_index(drop=True)
        return pd.concat([all_ranks[["id", "group", "reachable", "rank"]], per_query(all_ranks)], axis=1)

    def scores(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of the reported pairs, all seeds together."""
        tables = [run.reported_pairs for run in self.runs]
        scores = [table[run.column(method)].to_numpy() for run, table in zip(self.runs, tables, strict=True)]
        return np.concatenate(scores), np.concatenate([table["label"].to_numpy() for table in tables])

    @property
    def folders(self) -> str:
        """The folders of its runs, as the value of an option."""
        folders = [path_value(run.folder.as_posix()) for run in self.runs]
        return folders[0] if len(folders) == 1 else f"[{','.join(folders)}]"

    def test_key(self) -> tuple[object, ...]:
        """A key that is equal for settings with the same seeds that were tested on the same pairs and queries."""
        tested = []
        for run in self.runs:
            tables = [run.reported_pairs[["id_1", "id_2"]]]
            if run.queries is not None:
                tables.append(run.queries[["protocol", "id"]].drop_duplicates())
            tested += [int(pd.util.hash_pandas_object(table, index=False).sum()) for table in tables]
        return self.corpus, tuple(self.seeds), tuple(tested)

    def _predictions(self, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predictions, labels, groups and run of the reported pairs, all seeds together."""
        predicted = []
        label = []
        group = []
        for run in self.runs:
            table = run.reported_pairs
            threshold = run.results.loc[run.results["method"] == method, "threshold"].iloc[0]
            scores = table[run.column(method)].to_numpy()
            predicted.append(scores >= np.asarray(threshold, dtype=scores.dtype))
            label.append(table["label"].to_numpy())
            group.append(table["group"].to_numpy(dtype=str))
        number = np.repeat(np.arange(len(label)), [len(labels) for labels in label])
        return np.concatenate(predicted), np.concatenate(label), np.concatenate(group), number


def ranked_protocols(settings: Iterable[Setting]) -> list[str]:
    """The protocols by which some runs have ranked, each once, in the order of the runs."""
    return list(dict.fromkeys(name for setting in settings for run in setting.runs for name in run.protocols))


def query_metrics(table: pd.DataFrame) -> dict[str, float]:
    """Means of the metrics of queries, and the intervals of RR@10, MRR and MAP@10 over queries."""
    values = {name: float(table[name].mean()) for name in table.columns if name not in ("id", "group")}
    names = [name for name in ("rr@10", "mrr", "map@10") if name in table]
    means = table.groupby(["id", "group"])[names].mean().reset_index()
    return values | interval_columns(means, means["group"].to_numpy(), names)


def by_corpus(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Groups settings by corpus, in the order in which corpora first occur."""
    corpora: dict[str, list[Setting]] = {}
    for setting in settings:
        corpora.setdefault(setting.corpus, []).append(setting)
    return corpora


def group_settings(runs: Iterable[Run]) -> list[Setting]:
    """Groups runs whose typed options differ only in the seed, in the order of each setting's first run.

    Of several runs with the same setting and seed, the newest counts; the others are in ``Setting.repeated``.
    """
    runs = list(runs)
    # Labels name the options that differ among trainings of one corpus, or among runs of one baseline.
    kinds: dict[Any, list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.corpus, run.label if run.is_baseline else None), []).append(run)
    order = {run.folder: position for position, run in enumerate(runs)}
    settings = [setting for kind in kinds.values() for setting in _settings_of_kind(kind)]
    return sorted(settings, key=lambda setting: min(order[run.folder] for run in (*setting.runs, *setting.repeated)))


def _settings_of_kind(runs: list[Run]) -> list[Setting]:
    """The settings of the trainings of one corpus, or of the runs of one baseline on it."""
    typed = [_typed_options(run) for run in runs]
    names = list(dict.fromkeys(name for values in typed for name in values))
    members: dict[Any, list[Run]] = {}
    for run, values in zip(runs, typed, strict=True):
        options = {name: values.get(name, "") for name in names} | {CONTENTS: (run.fingerprint or "")[:CONTENTS_SHOWN]}
        members.setdefault((run.label, run.fingerprint, tuple(options.items())), []).append(run)
    all_options = [dict(options) for _, _, options in members]
    named = _label_options([base for base, _, _ in members], all_options)
    settings = []
    for (base, _, _), options, label_options, group in zip(members, all_options, named, members.values(), strict=True):
        newest = {int(run.config.seed): run for run in sorted(group, key=lambda run: run.finished_at)}
        chosen = [newest[seed] for seed in sorted(newest)]
        folders = {run.folder for run in chosen}
        settings.append(
            Setting(base, options, label_options, chosen, [run for run in group if run.folder not in folders])
        )
    return settings


def _typed_options(run: Run) -> dict[str, str]:
    """The options of a run's command line that make a setting, with their values."""
    typed = {}
    for word in run.overrides:
        name = option_of(word)
        if name not in NO_SETTING and not name.startswith(NO_SETTING_BELOW):
            # A baseline with the encoder of a run names the folder of one seed: those of all seeds are one setting.
            value = re.sub(rf"/seed_{run.config.seed}(?=/|$)", "", word.partition("=")[2])
            typed[name] = _number_text(value)
    return typed


def _number_text(value: str) -> str:
    """A number in one form, such as 0.001 for 1e-3; other values as they are typed."""
    try:
        number = float(value)
    except ValueError:
        return value
    return str(int(number)) if number.is_integer() else repr(number)


def _label_options(bases: list[str], options: list[dict[str, str]]) -> list[list[str]]:
    """The options that the label of each setting names: those that differ.

    Of ``IN_BASE``, those that differ among settings with the same first words: "tiny, text alone" is always graph=none.
    """

    def varied(rows: list[dict[str, str]]) -> list[str]:
        return [name for name in rows[0] if len({values[name] for values in rows}) > 1]

    differing = [name for name in varied(options) if name != CONTENTS]
    named = []
    for base in bases:
        same = varied([values for other, values in zip(bases, options, strict=True) if other == base])
        named.append([name for name in differing if name in same or name.partition(".")[0] not in IN_BASE])
    labels = {
        (base, *((name, values[name]) for name in names))
        for base, values, names in zip(bases, options, named, strict=True)
    }
    return named if len(labels) == len(bases) else [varied(options)] * len(bases)
