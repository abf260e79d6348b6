from hydra.core.override_parser.overrides_parser import OverridesParser

PARAMS = {"a": "1,2,3", "b.c": "x,y"}


def jobs(*arguments: str, size: int | None = None) -> list[list[str]]:
    from hydra_plugins.gedbd.one_at_a_time import OneAtATime  # Hydra loads its plugins again when a command starts

    sweeper = OneAtATime(max_batch_size=size, params=PARAMS)
    given = [f"{key}={value}" for key, value in PARAMS.items()]
    batches = sweeper.split_arguments(OverridesParser.create().parse_overrides([*given, *arguments]), size)
    assert all(len(batch) <= (size or len(batch)) for batch in batches)
    return [job for batch in batches for job in batch]


def test_each_option_takes_its_other_values_while_the_rest_keep_their_first():
    assert jobs() == [["a=1", "b.c=x"], ["a=2", "b.c=x"], ["a=3", "b.c=x"], ["a=1", "b.c=y"]]


def test_the_command_line_replaces_values_and_crosses_other_options():
    found = jobs("a=5,6", "b.c=z", "d=p,q", "e=1")
    assert found == [[f"d={d}", "e=1", f"a={a}", "b.c=z"] for d in "pq" for a in (5, 6)]


def test_jobs_come_in_batches_of_a_size():
    assert jobs(size=3) == jobs()
