"""Hides the known duplicate groups of a tracker's newest reports and finds them again by clustering: a table.

python benchmarks/clusters.py FOLDER/reports.csv FOLDER/reports.csv ... --keep outputs/clusters

Walk-forward: ranker and probabilities learn from the oldest 80% of the reports; every link of a newer report is hidden,
and the newest fifth is clustered as if all its reports were open. The fifth before it, with what is learnt from the
oldest 60%, says how the thresholds do on older reports: a threshold is chosen there, never on the newest fifth.
"""

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from report_lists import read_tracker

from gedbd.corpora.corpus import OUTSIDE, TEST, TRAIN, VAL, Corpus
from gedbd.evaluation.significance import ratio_intervals
from gedbd.io.table_files import read_parquet, write_parquet
from gedbd.retrieval.report_ranking.report_training import RankerOptions, ReportHistory
from gedbd.triage.backtesting.history_replay import learn, learn_probability
from gedbd.triage.report_clusters import LikelyPairs, complete_link, find_likely_pairs
from gedbd.triage.triage_model import TriageModel

FIFTHS = {"older": (0.45, 0.6, 0.8), "newest": (0.6, 0.8, 1.0)}  # where validation, test, and what is unseen begin
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
LEAST = 0.01
MAX_REPLAYED = 10_000
WANTED = (0.3, 0.5)  # precisions for which a threshold is chosen on the older fifth


class HiddenGroups(NamedTuple):
    """A fifth of a tracker's reports whose links are hidden, and the pairs that are found in it.

    Attributes:
        group: ``(N,)`` the hidden group of each report.
        start: The first report of the fifth.
        end: The first report after it.
        pairs: Pairs of a report of the fifth and an earlier one of the tracker.
    """

    group: np.ndarray
    start: int
    end: int
    pairs: LikelyPairs

    def inside(self, threshold: float) -> LikelyPairs:
        """The pairs of two reports of the fifth with at least this probability."""
        return self.pairs.take((self.pairs.earlier >= self.start) & (self.pairs.probability >= threshold))

    def hidden_pairs(self) -> list[tuple[int, int]]:
        """Every two reports of the fifth that are of one group."""
        members: dict[int, list[int]] = {}
        for row in range(self.start, self.end):
            members.setdefault(int(self.group[row]), []).append(row)
        return [pair for rows in members.values() for pair in combinations(rows, 2)]


def learn_until(corpus: Corpus, vectors: np.ndarray, bounds: Sequence[float], seed: int = 0) -> TriageModel:
    """What a backtest learns from the reports before a fifth."""
    parts = np.full(len(corpus), OUTSIDE)
    val, test, end = (round(len(corpus) * bound) for bound in bounds)
    parts[:val], parts[val:test], parts[test:end] = TRAIN, VAL, TEST
    learnt = learn(corpus, parts, {TEST: vectors}, MAX_REPLAYED, RankerOptions("boosted", seed, base=None))
    confidence, _ = learn_probability(learnt.replayed, learnt.ranker, seed)
    return TriageModel(learnt.ranker, confidence, (), 0.7)


def hide_and_find(corpus: Corpus, vectors: np.ndarray, bounds: Sequence[float], model: TriageModel) -> HiddenGroups:
    """Hides the links of a fifth and of later reports, and finds pairs in it."""
    start, end = (round(len(corpus) * bound) for bound in bounds[1:])
    assert corpus.links is not None
    links = corpus.links.pairs
    known = links[:, links.max(axis=0) < start]
    history = ReportHistory.of_reports(corpus.reports.iloc[:end], vectors[:end], known, corpus.group[:end])
    return HiddenGroups(corpus.group, start, end, find_likely_pairs(history, range(start, end), model, LEAST))


def kept_or_found(path: str, backend: str, keep: Path) -> dict[str, HiddenGroups]:
    """Both fifths of a tracker; what an earlier run has kept is read."""
    name = Path(path).parent.name
    corpus, vectors = read_tracker(path, backend)
    found = {}
    for fifth, bounds in FIFTHS.items():
        file = keep / f"{name}-{fifth}.parquet"
        if not file.is_file():
            model = learn_until(corpus, vectors, bounds)
            (keep / f"{name}-{fifth}.json").write_text(model.as_json())
            hidden = hide_and_find(corpus, vectors, bounds, model)
            write_parquet(file, pd.DataFrame(hidden.pairs._asdict()))
        table = read_parquet(file)
        pairs = LikelyPairs(*(table[field].to_numpy() for field in LikelyPairs._fields))
        start, end = (round(len(corpus) * bound) for bound in bounds[1:])
        found[fifth] = HiddenGroups(corpus.group, start, end, pairs)
    return found


def measure(hidden: HiddenGroups) -> pd.DataFrame:
    """Pairs of the clusters at each threshold: how many are hidden duplicates, and how many of these are found."""
    wanted = hidden.hidden_pairs()
    group = hidden.group
    rows = []
    for threshold in THRESHOLDS:
        pairs = hidden.inside(threshold)
        ends = list(zip(pairs.earlier.tolist(), pairs.later.tolist(), strict=True))
        clusters = complete_link(ends, pairs.probability.tolist())
        found = [pair for one in clusters for pair in combinations(one, 2)]
        right = [bool(group[one] == group[other]) for one, other in found]
        reached = set(found)
        row = {"threshold": threshold, "groups": len(clusters), "largest": max(map(len, clusters), default=0)}
        row |= {"pairs": len(found), "right": sum(right)}
        row |= share("precision", right, [int(group[other]) for _, other in found])
        row |= share("recall", [pair in reached for pair in wanted], [int(group[other]) for _, other in wanted])
        rows.append(row)
    return pd.DataFrame(rows)


def share(name: str, hits: Sequence[bool], cluster: Sequence[int]) -> dict[str, float]:
    """A share with its 95% interval over groups; NaN of nothing."""
    values = np.array(hits, dtype=bool)[:, None]
    low, high = ratio_intervals(values, np.ones_like(values), np.array(cluster, dtype=np.int64))
    return {name: float(values.mean()) if len(values) else np.nan, f"{name}_low": low[0], f"{name}_high": high[0]}


def shown(row: pd.Series, name: str) -> str:
    """``.62 [.44, .78]``."""
    if np.isnan(row[name]):
        return "-"
    value, low, high = (f"{row[key]:.2f}".removeprefix("0") for key in (name, f"{name}_low", f"{name}_high"))
    return f"{value} [{low}, {high}]"


def report(name: str, found: dict[str, HiddenGroups]) -> None:
    """Prints the table of a tracker, and how thresholds chosen on the older fifth do on the newest."""
    older, newest = (measure(found[fifth]) for fifth in FIFTHS)
    hidden = found["newest"]
    print(
        f"\n{name}: {hidden.end - hidden.start:,} newest reports, {len(hidden.hidden_pairs()):,} hidden pairs;"
        f" the older fifth has {len(found['older'].hidden_pairs()):,}\n"
    )
    print("| from probability | groups | largest | pairs | precision | recall | older: pairs | precision | recall |")
    print("|---:|---:|---:|---:|---|---|---:|---:|---:|")
    for (_, row), (_, before) in zip(newest.iterrows(), older.iterrows(), strict=True):
        cells = [f"{row['threshold']:g}", f"{row['groups']:,.0f}", f"{row['largest']:.0f}", f"{row['pairs']:,.0f}"]
        cells += [shown(row, "precision"), shown(row, "recall"), f"{before['pairs']:,.0f}"]
        cells += [shown(before, one).partition(" ")[0] for one in ("precision", "recall")]
        print(f"| {' | '.join(cells)} |")
    for precision in WANTED:
        enough = older[older["precision"] >= precision]
        if len(enough):
            threshold = enough["threshold"].min()
            row = newest[newest["threshold"] == threshold].iloc[0]
            print(
                f"\n{name}: precision {precision:g} is reached on the older fifth from {threshold:g}; on the newest:"
                f" precision {shown(row, 'precision')}, recall {shown(row, 'recall')}"
            )


def main() -> None:
    """Measures each tracker, and prints the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", help="exports; the folder's name is the tracker's")
    parser.add_argument("--backend", default="openvino_bf16")
    parser.add_argument("--keep", type=Path, required=True, help="folder that keeps models and pairs")
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    for path in arguments.corpora:
        report(Path(path).parent.name, kept_or_found(path, arguments.backend, arguments.keep))


if __name__ == "__main__":
    main()
