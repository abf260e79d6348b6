"""What a report says of its runs, and what it proposes to do next."""

from pathlib import Path

from gedbd.evaluation.report.all_sections import next_steps, repeated_runs, runs_section, summarise
from gedbd.evaluation.report.run_settings import group_settings


def test_repeated_runs_are_named_with_the_newer_one(leave):
    old, new = leave("old", time=1), leave("new", time=2)
    settings = group_settings([old, new])
    (row,) = repeated_runs(settings)
    assert (row["seed"], row["left out"], row["newer"]) == ("0", old.folder.as_posix(), new.folder.as_posix())
    section = runs_section(settings)
    assert section.tables[0]["folder"].tolist() == [new.folder.as_posix()]
    assert section.tables[1]["left out"].tolist() == [old.folder.as_posix()]


def test_without_repeats_there_is_one_table_with_a_row_a_run(leave):
    section = runs_section(group_settings([leave("a"), leave("b", "seed=1")]))
    assert section.tables[0]["seed"].tolist() == ["0", "1"]
    assert len(section.tables) == 1


def test_the_summary_counts_what_is_left_out(leave):
    settings = group_settings([leave("a", time=1), leave("b", time=2), leave("c", "seed=1"), leave("d", "graph=none")])
    assert summarise(settings, 0, 0) == "3 runs in 2 settings. Left out: 1 repeated run."
    assert summarise(settings, 2, 1) == (
        "3 runs in 2 settings. Left out: 1 repeated run; 2 unfinished runs; 1 run with a page of its own."
    )


def test_next_steps_name_commands_that_can_be_given(leave, tmp_path):
    halted = tmp_path / "halted"
    (halted / "checkpoints").mkdir(parents=True)
    (halted / "checkpoints" / "last.ckpt").touch()
    runs = [
        leave(f"{name}/seed_{seed}", f"graph={name}", f"seed={seed}") for name in ("none", "dense") for seed in "01"
    ]
    steps = next_steps(group_settings(runs), [halted, Path("never/started")])
    assert [command for _, command in steps] == [
        f"gedbd train ckpt_path={halted.as_posix()}/checkpoints/last.ckpt",
        f"gedbd compare run={tmp_path.as_posix()}/dense against={tmp_path.as_posix()}/none",
    ]


def test_settings_of_other_tests_are_not_compared(leave):
    steps = next_steps(group_settings([leave("a"), leave("b", "split=group", "graph=none")]), [])
    assert steps == [("2 settings trained with only one seed: seeds=3 shows the variation between seeds.", "")]
