"""A sweep that varies one option at a time."""

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override


class OneAtATime(BasicSweeper):
    """``hydra/sweeper=one_at_a_time``: each option of ``params`` takes its further values; the others keep their first.

    ``params: {a: "1,2,3", b: "x,y"}`` gives four jobs: a=1 b=x, a=2 b=x, a=3 b=x, a=1 b=y. Values given on the command
    line replace those of ``params``. Other options that the command line sweeps are crossed with all of these jobs.
    """

    def split_arguments(  # type: ignore[override]  # static in Hydra, which calls it on the object
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        """The jobs, in batches of at most ``max_batch_size``; each job is a list of overrides."""
        varied = [item for item in overrides if item.get_key_element() in self.params]
        others = [item for item in overrides if item.get_key_element() not in self.params]
        values: dict[str, list[str]] = {}
        for item in varied:
            if item.is_sweep_override():
                values[item.get_key_element()] = list(item.sweep_string_iterator())
            else:
                values[item.get_key_element()] = [item.get_value_element_as_str()]
        (crossed,) = BasicSweeper.split_arguments(others, None)  # without a batch size there is one batch
        jobs = [[*job, *chosen] for job in crossed for chosen in _one_at_a_time(values)]
        size = max_batch_size or len(jobs)
        return [jobs[first : first + size] for first in range(0, len(jobs), size)]


def _one_at_a_time(values: dict[str, list[str]]) -> list[list[str]]:
    """All first values; then each further value of an option, with the first values of the others.

    ``{a: [1, 2], b: [x, y]}`` gives ``[[a=1, b=x], [a=2, b=x], [a=1, b=y]]``.
    """
    first = {key: mine[0] for key, mine in values.items()}
    chosen = [first]
    for key, mine in values.items():
        chosen += [first | {key: value} for value in mine[1:]]
    return [[f"{key}={value}" for key, value in job.items()] for job in chosen]
