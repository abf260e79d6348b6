"""Compares two rankings: ``gedbd.compare``."""

import pandas as pd

from gedbd.api.ranking import RankingResult


def compare(first: RankingResult, second: RankingResult) -> pd.DataFrame:
    """The differences of the metrics of two scorers on the same queries, with intervals and p values.

    The same as ``gedbd compare`` for two runs of one seed.

    Args:
        first: A result of ``rank``.
        second: Another one, of the same reports, part and protocol.

    Returns:
        One row a metric: ``metric``, ``first`` and ``second`` (its values), ``difference`` (first less second) with
        ``difference_low`` and ``difference_high`` (95%, a paired bootstrap over duplicate groups), ``p_value``
        (Wilcoxon's signed-rank test over queries) and ``p_mann_whitney`` (which takes the two rankings for
        independent samples).

    Raises:
        ValueError: If the queries or the protocols differ.

    Example:
        >>> import gedbd
        >>> corpus = gedbd.load_corpus("demo")
        >>> table = gedbd.compare(gedbd.rank(corpus, "tfidf"), gedbd.rank(corpus, "bm25"))
        >>> float(table.set_index("metric").loc["mrr", "difference"].round(3))
        0.07
    """
    from gedbd.evaluation.compare import Key, compare_queries, join_results

    if first.protocol != second.protocol or first.part != second.part:
        raise ValueError(
            f"{first.name} ranked {first.part} by {first.protocol}, {second.name} {second.part} by {second.protocol}:"
            " give results with the same part and protocol"
        )
    tables = [result.queries.drop(columns="rank") for result in (first, second)]
    joined = join_results((first.name, second.name), tables[0], tables[1])
    return pd.DataFrame(compare_queries(first.protocol, {Key(0, 0): joined})).drop(columns="by_seed")
