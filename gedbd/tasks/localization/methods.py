"""The methods that a run compares: scorers alone, by parts, and summed."""

from collections.abc import Callable, Mapping, Sequence

from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.scorers.scorer import Scorer
from gedbd.tasks.localization.protocol import Level
from gedbd.tasks.localization.rankings import Method

LINEAR = "linear"


def plain_methods(
    scorers: Mapping[str, Callable[[], Scorer]], granularities: Sequence[str], linear: Sequence[str]
) -> dict[str, Method]:
    """Each scorer alone, and the sum of some with learnt weights.

    Args:
        scorers: By id, what makes a scorer that is not fitted yet.
        granularities: What is ranked.
        linear: The scorers of the learnt sum; none leaves it out.

    Raises:
        ValueError: If one of ``linear`` is not among the scorers.
    """
    unknown = [name for name in linear if name not in scorers]
    if unknown:
        raise ValueError(f"task.linear names {unknown[0]}, which is not among task.scorers: {', '.join(scorers)}")
    methods = {name: Method(_alone(make), False, tuple(granularities)) for name, make in scorers.items()}
    if linear:
        chosen = {name: scorers[name] for name in linear}
        methods[LINEAR] = Method(_summed(chosen), False, tuple(granularities))
    return methods


def _alone(make: Callable[[], Scorer]) -> Callable[[Level, int], Scorer]:
    return lambda level, seed: make()


def _summed(scorers: Mapping[str, Callable[[], Scorer]]) -> Callable[[Level, int], Scorer]:
    return lambda level, seed: LinearRanker({name: make() for name, make in scorers.items()})
