"""Trains the ranker of suspect commits that repositories without a tracker of their own use, and writes its card.

python benchmarks/default_ranker.py FOLDER/tomcat FOLDER/aspectj

Two data sets of bug localization are needed. Each trains a ranker that is measured on all reports of the other one;
the ranker that is kept is trained on both.
"""

import argparse
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np

import gedbd.localization.change_ranking
from gedbd.evaluation.significance import compare_means
from gedbd.localization.change_ranking.change_ranker import DEFAULT, ChangeRanker
from gedbd.localization.change_ranking.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    Replay,
    existing_paths,
    fit_examples,
    fixed_sources,
    reports_of,
)
from gedbd.localization.readers.changesets import read_localization

# With 5, as in rankers of one's own, the MRR over all commits was .50 in the place of .58 on Tomcat.
NEW_WEIGHT = 2
CARD = """# Default ranker of suspect commits

`default_ranker.json` ranks the commits of a repository for a bug report when no tracker taught a ranker of its own.
Plain text: JSON with two models of boosted trees, one for the files that a report concerns and one for the commits.

- Trained on {date} with `python benchmarks/default_ranker.py {folders}`, seed 0, {num_seeds} trainings averaged.
- Training data: {data}. The inducing commits were found by blame from the fixes and never checked by hand.
- It reads words, paths, names and edited places of reports and commits, their ages and sizes. Nothing that needs a
  tracker: earlier fixes are missing values. No text of the training data is in it, only numbers of splits.
- Sources: reports and histories of Apache Tomcat (Apache-2.0) and AspectJ (EPL), as collected in nirtiac/EmbeddingBugs
  and Naplues/buglocalization.

How well it does on a repository that it has never seen: trained on one project, tested on the other. Files are ranked
among the source files that existed before the report, for all reports whose fix changed one of them; BM25 is that over
all changes of a file.

| trained on | tested on | reports | MRR | BM25 | difference | hit@1 | hit@10 | BM25 hit@10 |
|---|---|---|---|---|---|---|---|---|
{file_rows}

Commits are ranked for all reports that have an inducing commit before them, among all commits before each report, and
on the later half of these alone: many bugs of the earlier reports came with the first import of the code, which is easy
to find. New commits are those not known to have induced an earlier bug that was fixed before the report; a report with
such commits alone counted {new_weight} times in training. To rank the oldest commit first, whatever the report says,
has an MRR of {oldest}. In brackets 95%
intervals of the paired difference to BM25 over diffs (bootstrap over reports).

| trained on | tested on | reports | MRR | BM25 | difference | hit@1 | hit@10 | BM25 hit@10 |
|---|---|---|---|---|---|---|---|---|
{rows}

Both are Java projects of the 2000s with fixes named in messages; on other languages, or histories of another kind, it
has not been measured. On {names} themselves its figures say nothing: it was trained on their inducing
commits. `gedbd locate-backtest` says how good it is on a tracker's own history, beside a ranker that is trained on it.
"""


def first_ranks(examples: list[ChangeExample], ranker: ChangeRanker | None = None) -> np.ndarray:
    """Rank of the first inducing commit of each report, by a ranker or else by BM25 over diffs."""
    found = []
    for example in examples:
        if len(example.inducing):
            scores = example.features.scores["diff"] if ranker is None else ranker.scores_of(example.features)
            order = np.lexsort((-np.arange(len(scores)), -scores))
            found.append(1 + np.flatnonzero(np.isin(order, example.inducing))[0])
    return np.array(found)


def with_earlier_files(replay: Replay, examples: Mapping[int, ChangeExample]) -> list[ChangeExample]:
    """The examples whose fix changed a source file that existed before the report, a candidate or not."""
    history, fixing = replay.history, replay.corpus.fixing
    assert fixing is not None
    sources = {row: fixed_sources(history, fixing.relevant(row)) for row in examples}
    earlier = {row: existing_paths(history, sources[row], one.features.num_commits) for row, one in examples.items()}
    return [one for row, one in examples.items() if len(earlier[row])]


def first_file_ranks(examples: list[ChangeExample], ranker: ChangeRanker | None = None) -> np.ndarray:
    """Rank of the first fixed file of each report, infinite if none is a candidate; by a ranker or else by BM25."""
    found = []
    for example in examples:
        files = example.features.files
        scores = files.features[:, 0] if ranker is None else ranker.file_probability(files)
        is_fixed = example.is_fixed[np.lexsort((files.paths, -scores))]
        found.append(1 + int(is_fixed.argmax()) if is_fixed.any() else np.inf)
    return np.array(found)


def row(trained: str, tested: str, learnt: np.ndarray, bm25: np.ndarray) -> str:
    """A row of the card's table."""
    test = compare_means(1 / learnt, 1 / bm25, np.arange(len(learnt)))
    difference = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
    hits = f"{np.mean(learnt == 1):.3f} | {np.mean(learnt <= 10):.3f} | {np.mean(bm25 <= 10):.3f}"
    counts = f"{len(learnt)} | {np.mean(1 / learnt):.3f} | {np.mean(1 / bm25):.3f}"
    return f"| {trained} | {tested} | {counts} | {difference} | {hits} |"


def oldest_first(name: str, examples: list[ChangeExample]) -> str:
    """The MRR of the order by age: before the oldest inducing commit stand as many as its row says."""
    found = np.array([1 / (1 + example.inducing.min()) for example in examples if len(example.inducing)])
    return f"{found.mean():.3f} on {name}, later half {found[len(found) // 2 :].mean():.3f}"


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs=2, help="data sets of bug localization")
    parser.add_argument("--num-seeds", type=int, default=2)
    parser.add_argument("--output", default=str(Path(gedbd.localization.change_ranking.__file__).parent))
    arguments = parser.parse_args()
    options = ChangeTrainingOptions(num_seeds=arguments.num_seeds, new_weight=NEW_WEIGHT)
    examples, of_files, data = {}, {}, []
    for folder in arguments.folders:
        corpus = read_localization(folder)
        replay = Replay(corpus, tracker=False)
        found = replay.examples(range(len(reports_of(corpus))))
        examples[corpus.name], of_files[corpus.name] = list(found.values()), with_earlier_files(replay, found)
        data.append(
            f"{corpus.name}, {len(examples[corpus.name]):,} fixed reports, {len(corpus.commits.table):,} commits"
        )
    rows = []
    file_rows = []
    oldest = []
    for trained, tested in (tuple(examples), tuple(examples)[::-1]):
        ranker = fit_examples(examples[trained], options)
        learnt = first_ranks(examples[tested], ranker)
        bm25 = first_ranks(examples[tested])
        later = slice(len(learnt) // 2, None)
        oldest.append(oldest_first(tested, examples[tested]))
        rows.append(row(trained, tested, learnt, bm25))
        rows.append(row(trained, f"{tested}, later half", learnt[later], bm25[later]))
        is_new = np.array([example.is_new for example in examples[tested] if len(example.inducing)])
        rows.append(row(trained, f"{tested}, new commits", learnt[is_new], bm25[is_new]))
        learnt, bm25 = first_file_ranks(of_files[tested], ranker), first_file_ranks(of_files[tested])
        later = slice(len(learnt) // 2, None)
        file_rows.append(row(trained, tested, learnt, bm25))
        file_rows.append(row(trained, f"{tested}, later half", learnt[later], bm25[later]))
        print("\n".join(rows[-3:] + file_rows[-2:]), flush=True)
    ranker = fit_examples([example for some in examples.values() for example in some], options)
    output = Path(arguments.output)
    (output / DEFAULT).write_text(ranker.to_text(), encoding="utf-8")
    card = CARD.format(
        date=date.today().isoformat(),
        folders=" ".join(f"FOLDER/{Path(folder).name}" for folder in arguments.folders),
        num_seeds=arguments.num_seeds,
        new_weight=NEW_WEIGHT,
        data="; ".join(data),
        names=" and ".join(examples),
        oldest="; ".join(oldest),
        rows="\n".join(rows),
        file_rows="\n".join(file_rows),
    )
    (output / DEFAULT).with_suffix(".md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
