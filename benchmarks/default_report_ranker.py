"""Trains the ranker and the confidence of trackers without a backtest, and writes the ranker's card.

python benchmarks/default_report_ranker.py FOLDER/reports.csv FOLDER/reports.csv ...
python benchmarks/default_report_ranker.py FOLDER/reports.csv ... --leave-out NAME --output FILE

The folder's name is the tracker's. Each tracker in turn is left out and measured on its newest 20%.
"""

import argparse
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from ranker_card import write_figures
from report_lists import Tracker, fit_default, load_tracker, metrics, ranks, rounded_trees

import gedbd
from gedbd.corpora.corpus import TEST, TRAIN, VAL
from gedbd.retrieval.report_ranking.report_ranker import DEFAULT, ReportRanker
from gedbd.retrieval.report_ranking.report_training import fit_ranker
from gedbd.triage.backtesting.history_replay import folds
from gedbd.triage.triage_model import (
    DEFAULT_CONFIDENCE,
    NUM_COMPARED,
    Matches,
    MatchProbability,
    confidence_features,
    learn_confidence,
)

CARD = """# Default ranker of reports

`default_ranker.json` orders the candidates of a report where a tracker has too few duplicates of its own to learn from.
Plain text: JSON with one model of boosted trees. `gedbd/triage/default_confidence.json` says how probable the best
candidate is.

- Trained on {date}, seed 0, on the duplicates of four trackers, each with the same weight:
{data}
- The confidence is trained on all these duplicates, by rankers that were trained on the other three trackers, and on
  up to {num_others:,} reports of each without a duplicate, which count for all of them. It leaves out matches with the
  same title that are not marked, and those of reports that were closed as duplicates of an unknown report.
- The command: `python benchmarks/default_report_ranker.py` with `FOLDER/reports.csv.xz` of each tracker.
- It reads how a candidate compares to the others: words, titles, identifiers and lines about errors that it shares,
  equal fields, dates, known groups, and ranks and distances of cosines. Cosines as such it does not read, because those
  of another encoder are distributed otherwise; the vectors were those of bug_minilm, for each tracker by the adapters
  that were trained without it. Half of the training queries were read as in a tracker without dates.
- No text of the training data is in it: numbers of splits, and hashes of 64 reports of each tracker, by which gedbd
  recognises a tracker that the ranker was trained on.
- Sources: xamarin/bugzilla-archives; tidev/jira-archive (Apache-2.0); SPEAR-SE/LogInBugReportsEmpirical_Data (Apache
  Jira); SigmaJahan/Towards-Understanding-the-Impacts-of-Textual-Dissimilarity-on-Duplicate-Bug-Report-Detection.

How well it does on a tracker that it has never seen: trained on the other three, measured on the newest 20% of each.
Boosted trees and linear sum have learnt from the tracker's own older duplicates (the linear sum is `gedbd baseline
name=fusion`). The unweighted sum adds the z-scores of cosine and of the square root of BM25 over all earlier reports.

| tracker | queries | ranker | RR@1 | RR@10 | MRR |
|---|---|---|---|---|---|
{rows}

On these four trackers themselves the figures of the ranker that is shipped say nothing: it was trained on all their
duplicates. Its probabilities were not measured on any other tracker. `gedbd backtest` measures both on a tracker's own
history, and trains a ranker on it.
"""


def first_matches(tracker: Tracker, ranker: ReportRanker) -> tuple[Matches, np.ndarray]:
    """The first matches of each replayed report, by a ranker that was not trained on the tracker; no unknown ones.

    Returns:
        B matches, and the place of each one's report among the queries and the others of the tracker, ``(B,)``.
    """
    features, right, weight, groups = [], [], [], []
    single = tracker.size - len(tracker.queries)
    for some, stands_for in ((tracker.queries, 1.0), (tracker.others, single / max(len(tracker.others), 1))):
        for one in some:
            scores = ranker.scores(one.features)
            order = np.argsort(-scores, kind="stable")
            first = order[:NUM_COMPARED]
            known = ~tracker.unknown[one.row][first]
            features.append(confidence_features(one.features[order], scores[order])[: len(first)][known])
            right.append(one.right[first][known])
            weight.append(np.full(known.sum(), stands_for))
            groups.append(np.full(known.sum(), one.group[one.right][0] if one.right.any() else one.row))
    places = np.repeat(np.arange(len(right)), list(map(len, right)))
    found = Matches(*map(np.concatenate, (features, right, weight, groups)))
    return found._replace(fold=folds(found.fold)), places


def fit_confidence(trackers: Sequence[Tracker], rankers: Sequence[ReportRanker]) -> MatchProbability:
    """The confidence for a tracker without a backtest, from the trackers whose other reports were replayed."""
    found = [first_matches(one, ranker)[0] for one, ranker in zip(trackers, rankers, strict=True) if one.others]
    matches = Matches(*(np.concatenate(column) for column in zip(*found, strict=True)))
    confidence, _ = learn_confidence(matches, 0)
    knots = confidence.knots.round(6)
    return MatchProbability(rounded_trees(confidence.trees), knots, confidence.probabilities.round(6))


def card_rows(tracker: Tracker, ranker: ReportRanker, linear: Path | None) -> list[str]:
    """The rows of a tracker in the card."""
    test = tracker.of_part(TEST)
    own = fit_ranker(tracker.of_part(TRAIN, VAL))
    found = {"default, trained on the others": metrics(ranks(test, lambda one: ranker.scores(one.features)))}
    ranking = None if linear is None else linear / tracker.name / "ranking.csv"
    if ranking is not None and ranking.is_file():
        table = pd.read_csv(ranking).iloc[0]
        found["linear sum, trained on its own"] = tuple(table[["rr@1", "rr@10", "mrr"]])
    found["boosted trees, trained on its own"] = metrics(ranks(test, lambda one: own.scores(one.features)))
    found["unweighted sum"] = metrics(tracker.unweighted)
    start = f"| {tracker.name} | {len(test)} |"
    return [f"{start} {name} | " + " | ".join(f"{value:.3f}" for value in one) + " |" for name, one in found.items()]


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", help="exports; the folder's name is the tracker's")
    parser.add_argument("--backend", default="openvino_bf16")
    parser.add_argument("--lists", type=Path, help="folder that keeps the replayed queries")
    parser.add_argument("--linear", type=Path, help="folder with the runs of gedbd baseline name=fusion, by tracker")
    parser.add_argument("--num-others", type=int, default=7500, help="reports without a duplicate, for the confidence")
    parser.add_argument("--num-seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--leave-out", help="a tracker; only the ranker of the others is written, to --output")
    parser.add_argument("--output", type=Path, help="file for --leave-out, or the package's folder")
    arguments = parser.parse_args()
    trackers = [
        load_tracker(one, arguments.backend, arguments.num_others, arguments.lists) for one in arguments.corpora
    ]

    def fit(left_out: str | None) -> ReportRanker:
        chosen = [one for one in trackers if one.name != left_out]
        return fit_default(chosen, arguments.num_seeds, arguments.rounds)

    if arguments.leave_out:
        arguments.output.write_text(fit(arguments.leave_out).to_text(), encoding="utf-8")
        return
    package = arguments.output or Path(gedbd.__file__).parent
    ranker = package / "retrieval" / "report_ranking" / DEFAULT
    ranker.write_text(fit(None).to_text(), encoding="utf-8")
    others = [fit(one.name) for one in trackers]
    pairs = zip(trackers, others, strict=True)
    rows = [row for one, other in pairs for row in card_rows(one, other, arguments.linear)]
    print("\n".join(rows), flush=True)
    confidence = fit_confidence(trackers, others)
    text = json.dumps(confidence.as_dict(), indent=0) + "\n"
    (package / "triage" / DEFAULT_CONFIDENCE).write_text(text, encoding="utf-8")
    card = CARD.format(
        date=date.today().isoformat(),
        data="\n".join(
            f"  {one.name} ({len(one.queries):,} of {one.size:,} reports){';' if one is not trackers[-1] else '.'}"
            for one in trackers
        ),
        num_others=arguments.num_others,
        rows="\n".join(rows),
    )
    write_figures(ranker.with_suffix(".md"), card)


if __name__ == "__main__":
    main()
