"""What a run has left and a disk has damaged is reported with file and row, and never read as if it were whole."""

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from gedbd.evaluation.run_folders import Run
from gedbd.experiments.checkpoint import check_corpus
from gedbd.experiments.run_training import best_f1
from gedbd.experiments.seeds import summarise_seeds
from gedbd.experiments.sweeps.job_status import FINISHED, JobStatus, read_jobs, read_status, write_status
from gedbd.experiments.sweeps.sweep_table import show_jobs
from gedbd.io.files import read_object, replacing, write_text
from gedbd.io.table_files import read_csv, write_csv, write_parquet
from gedbd.triage.triage_model import TriageModel

RESULTS = pd.DataFrame({"method": ["text", "a, b"], "f1": [0.25, 0.5], "average_precision": [0.125, 0.0]})
EPOCHS = pd.DataFrame({"epoch": [0, 1], "val/f1": [0.25, 0.5], "val/loss": [1.0, 0.5]})


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run, as small as it can be."""
    folder = tmp_path / "seed_0"
    folder.mkdir()
    write_csv(folder / "results.csv", RESULTS)
    write_csv(folder / "ranking.csv", pd.DataFrame({"method": RESULTS["method"], "mrr": [0.5, 0.25]}))
    write_csv(folder / "metrics.csv", EPOCHS)
    write_parquet(folder / "predictions.parquet", pd.DataFrame({"score": [0.5]}))
    (folder / "leak.json").write_text('{"pairs": 0.5}')
    (folder / "versions.json").write_text('{"corpus": "a"}')
    (folder / "config.yaml").write_text("monitor: val/f1\n")
    return folder


def cut(file: Path, to: int) -> None:
    file.write_bytes(file.read_bytes()[:to])


def test_what_is_whole_is_read(run):
    pd.testing.assert_frame_equal(Run(run).results, RESULTS)
    assert best_f1(run, "val/f1") == 0.5
    assert len(summarise_seeds(run.parent, Console(quiet=True))) == 2


@pytest.mark.parametrize("name", ["results.csv", "metrics.csv", "ranking.csv"])
def test_a_table_that_is_cut_off_anywhere_but_between_rows_is_told_with_its_row(run, name):
    whole = (run / name).read_bytes()
    read = {"results.csv": "results", "metrics.csv": "epochs", "ranking.csv": "ranking"}[name]
    for length in range(len(whole)):
        if whole[:length].endswith(b"\n") and length > len(whole.splitlines()[0]) + 1:
            continue
        (run / name).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"{name}(, row \d| is damaged: it holds no rows)") as refused:
            getattr(Run(run), read)
        assert "\n" not in str(refused.value)


def test_a_table_of_results_without_its_last_rows_is_told(run):
    (run / "results.json").write_text(json.dumps(RESULTS.to_dict("records")))
    assert len(Run(run).results) == 2
    cut(run / "results.csv", (run / "results.csv").read_bytes().index(b"\n", 40) + 1)
    with pytest.raises(ValueError, match=r"results.csv has 1 rows and results.json 2: one of them is cut off"):
        _ = Run(run).results


def test_a_value_that_is_no_number_is_told_with_its_row(run):
    (run / "metrics.csv").write_text("epoch,val/f1\n0,0.5\n1,0.5x\n")
    with pytest.raises(ValueError, match=r"metrics.csv, row 3: val/f1 is '0.5x', not a number"):
        best_f1(run, "val/f1")
    (run / "metrics.csv").write_text("epoch,val/loss\n0,0.5\n")
    with pytest.raises(ValueError, match=r"metrics.csv is damaged: it has no column 'val/f1'"):
        best_f1(run, "val/loss")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 900, "half"])
def test_damaged_predictions_are_told(run, content):
    file = run / "predictions.parquet"
    file.write_bytes(file.read_bytes()[:-9] if content == "half" else content)
    with pytest.raises(ValueError, match=r"predictions.parquet is damaged: ") as refused:
        _ = Run(run).predictions
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "{", "[1]", "3", "{}", "\0", "[" * 99_999])
def test_damaged_versions_are_told(run, content, make_corpus):
    (run / "versions.json").write_text(content)
    for read in (lambda: Run(run).fingerprint, lambda: check_corpus(run, make_corpus([0]))):
        with pytest.raises(
            ValueError, match=r"versions.json is damaged: it (holds no JSON|has no 'corpus')"
        ) as refused:
            read()
        assert "\n" not in str(refused.value)


def test_seeds_name_the_table_that_is_damaged(run):
    cut(run / "results.csv", 40)
    with pytest.raises(ValueError, match=r"seed_0/results.csv, row"):
        summarise_seeds(run.parent, Console(quiet=True))


def test_a_sweep_says_which_job_has_damaged_results(run, capsys):
    jobs = {run: JobStatus(FINISHED, ("seed=0",), 0.5, 1.0)}
    show_jobs(run.parent, jobs)
    cut(run / "results.csv", 40)
    capsys.readouterr()
    show_jobs(run.parent, jobs)
    told = capsys.readouterr().out
    assert f"no results of {run}: {run}/results.csv, row 2" in told
    assert list(pd.read_csv(run.parent / "summary.csv")["seed"]) == [0]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"state": "finished"}', '{"state": "finished", "overrides": 3}'])
def test_a_damaged_job_is_named_and_the_others_go_on(tmp_path, capsys, content):
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        write_status(tmp_path / name, JobStatus(FINISHED, (f"seed={name}",)))
    (tmp_path / "0" / "status.json").write_text(content)
    assert [folder.name for folder in read_jobs(tmp_path)] == ["1"]
    assert f"left out: {tmp_path}/0/status.json is damaged" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"status.json is damaged"):
        read_status(tmp_path / "0")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "{}", '{"weights": {}}'])
def test_a_damaged_result_of_a_backtest_is_told(content):
    with pytest.raises(ValueError, match=r"^tested:? ") as refused:
        TriageModel.from_json(content, "tested")
    assert "\n" not in str(refused.value)


def test_what_fails_while_it_is_written_leaves_the_file_before(tmp_path):
    file = tmp_path / "a.csv"
    write_text(file, "before")
    file.chmod(0o640)

    def half():
        with replacing(file) as unfinished:
            unfinished.write_text("ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert file.read_text() == "before"
    write_text(file, "after")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_link_and_a_pipe_stay_what_they_are(tmp_path):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "after"
    write_text(Path("/dev/null"), "away")
    assert not Path("/dev/null").is_file()


def test_what_a_killed_process_has_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    with replacing(tmp_path / "a.csv") as unfinished:
        unfinished.write_text("a")
        mine = unfinished.name
    left = tmp_path / mine.replace(mine.split(".")[-3], str(ended.pid))
    other = tmp_path / mine.replace(mine.split(".")[-3], "1")
    for path in (left, other):
        path.touch()
    write_text(tmp_path / "a.csv", "b")
    assert not left.exists()
    assert other.exists()


def test_an_object_has_what_is_needed(tmp_path):
    (tmp_path / "a.json").write_text('{"b": 1}')
    assert read_object(tmp_path / "a.json", "b") == {"b": 1}
    assert len(read_csv_of(tmp_path, "a,b\n1,\n")) == 1
    assert len(read_csv_of(tmp_path, "a,b\nx\u2028y\x0cz\x85,1\n")) == 1


def read_csv_of(folder: Path, text: str) -> pd.DataFrame:
    (folder / "t.csv").write_text(text)
    return read_csv(folder / "t.csv", "b")
