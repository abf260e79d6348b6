"""Tables 3 and 6 of Hazra et al. (arXiv 2309.05035) and their error analysis, from the ranks of finished runs.

gedbd baseline -m experiment=cqa_retrieval dataset=stackexchange dataset.path=FOLDER name=te,te_network,dupe
python benchmarks/question_errors.py SWEEP ...

The paper shows five questions that TE ranks better than TE+network, and five of which the reverse is true. It says that
the first have long titles, and the others short ones and a most frequent tag with many neighbours in the tag network.
Here all questions with an original among the candidates count; a rank is the median over seeds.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from scipy.stats import mannwhitneyu, spearmanr

from gedbd.corpora.corpus import TRAIN
from gedbd.corpora.fields import tags_of
from gedbd.experiments.pairs_export import read_drawn
from gedbd.experiments.published import read_published
from gedbd.experiments.report.run_settings import Setting, group_settings
from gedbd.experiments.run_folder import find_runs

TE, NETWORK = "te", "te_network"
TABLE6 = ("dup_predictor", "dupe", TE, NETWORK)
SHOWN = 5  # questions on each side, as in the paper


def ranks_of(setting: Setting, protocol: str) -> pd.Series:
    """The median rank over seeds of each question whose original can be found, by the question's id."""
    table = setting.ranks(setting.methods[0], protocol)
    if table is None:
        raise ValueError(f"{setting.label} was not ranked by {protocol}: choose another --protocol")
    found = table[table["reachable"].astype(bool)]
    return found.groupby("id", sort=False)["rank"].median()


def describe(setting: Setting) -> pd.DataFrame:
    """Words in the title of each question, and neighbours of its most frequent tag, by the question's id."""
    run, prepared = read_drawn(setting.runs[0].folder)
    reports = prepared.corpus.reports
    tags = tags_of(reports)
    encoder = instantiate(run.config.tags).fit([tags[row] for row in np.flatnonzero(prepared.parts == TRAIN)])
    main = encoder.main_tags(tags)
    neighbours = np.append(np.diff(encoder.network_.weights.indptr), 0)[main]  # -1, no known tag, selects the 0
    words = [len(title.split()) for title in reports["title"]]
    return pd.DataFrame({"words": words, "neighbours": neighbours}, index=reports["id"].to_numpy(dtype=object))


def published_examples() -> pd.DataFrame:
    """The paper's ten questions, in the form that ``analyse`` takes; by the question's id on Ask Ubuntu."""
    rows = read_published("questions", "table3")
    ranks = rows.pivot(index="condition", columns="method", values="rank")
    return ranks.join(rows.dropna(subset=["words"]).set_index("condition")[["words", "neighbours"]])


def analyse(table: pd.DataFrame) -> pd.DataFrame:
    """Compares the questions that TE ranks better with those that TE+network ranks better.

    Args:
        table: One row for each question, with ``te``, ``te_network``, ``words`` and ``neighbours``.

    Returns:
        A row for each property: its medians on both sides, the p-value of the Mann-Whitney test between them, and
        Spearman's correlation, with its p-value, with log10(rank of TE / rank of TE+network), which is above 0 where
        the network helps.
    """
    gain = np.log10(table[TE] / table[NETWORK])
    rows = {}
    for name in ("words", "neighbours"):
        worse = table.loc[gain < 0, name]
        better = table.loc[gain > 0, name]
        correlation = spearmanr(table[name], gain)
        rows[name] = {
            "TE better, median": worse.median(),
            "TE+network better, median": better.median(),
            "Mann-Whitney p": mannwhitneyu(worse, better).pvalue,
            "Spearman": correlation.statistic,
            "its p": correlation.pvalue,
        }
    return pd.DataFrame(rows).T


def main() -> None:
    """Prints the tables of each split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="+", type=Path)
    parser.add_argument("--protocol", default="candidate_sets", help="candidate_sets (default) or earlier")
    options = parser.parse_args()
    found = group_settings(find_runs(options.sweeps).finished)
    settings = {setting.methods[0]: setting for setting in found}
    if len(settings) < len(found):
        raise ValueError("several settings of a method: give the runs of one corpus, split and setting of each method")
    missing = [name for name in (TE, NETWORK) if name not in settings]
    if missing:
        raise ValueError(f"no finished run of {missing[0]} in the given folders: add name={missing[0]} to the sweep")
    ranks = pd.DataFrame({name: ranks_of(settings[name], options.protocol) for name in TABLE6 if name in settings})
    table = ranks.join(describe(settings[NETWORK]))
    print(f"the paper's ten examples\n{analyse(published_examples()).round(3).to_string()}\n")
    gain = table[TE] / table[NETWORK]
    print(
        f"{len(table)} questions: TE better {(gain < 1).sum()}, equal {(gain == 1).sum()}, network {(gain > 1).sum()}"
    )
    print(analyse(table).round(3).to_string())
    by_gain = table.iloc[np.argsort(gain, kind="stable")]
    print(f"Table 3, TE better\n{by_gain.head(SHOWN).to_string()}")
    print(f"Tables 3 and 6, TE+network better\n{by_gain.tail(SHOWN)[::-1].to_string()}")
    best = ranks.eq(ranks.min(axis=1), axis=0)
    print(f"questions for which no other ranks better\n{best.sum().to_string()}")
    print(f"median rank\n{ranks.median().to_string()}")


if __name__ == "__main__":
    main()
