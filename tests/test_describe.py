import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

import gedbd
from gedbd.commands.describe import main
from gedbd.configuration.command import CONF_DIR
from gedbd.corpora.urls import check_template

PUBLISHED = ("eclipse", "thunderbird", "firefox", "jdt", "mozilla_core")


def config(*overrides: str) -> DictConfig:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose("describe", list(overrides))


def describe(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gedbd.commands.describe", *overrides]
    environment = {**os.environ, "PYTHONPATH": str(Path(gedbd.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def lines_of(text: str) -> list[list[str]]:
    return [line.strip("│ ").replace("│", " ").split() for line in text.splitlines()]


def test_demo_is_described_from_any_folder_and_nothing_is_written(tmp_path):
    done = describe(tmp_path)
    assert done.returncode == 0, done.stderr
    assert ["reports", "425"] in lines_of(done.stdout)
    assert ["pairs", "269"] in lines_of(done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_a_users_mistake_is_one_line_and_status_1(tmp_path):
    done = describe(tmp_path, "dataset=csv", "dataset.path=none.csv")
    assert done.returncode == 1
    assert done.stderr == "error: none.csv: no such file or folder; set dataset.path= to an existing one\n"


def test_labels_alone_are_described_and_said_to_be_alone(tmp_path, capsys):
    (tmp_path / "EclipsePlatform").mkdir()
    (tmp_path / "EclipsePlatform" / "train.csv").write_text("Issue_id,Duplicate\n1,2;3\n2,1;3\n3,1;2\n4,NULL\n")
    main(config("dataset=eclipse", f"data_dir={tmp_path}"))
    printed = capsys.readouterr().out
    assert ["in", "a", "group", "3"] in lines_of(printed)
    assert ["pairs", "3"] in lines_of(printed)
    assert "eclipse train: eclipse_platform.zip is not in" in printed
    assert f"gedbd download dataset=eclipse data_dir={tmp_path}" in printed


def test_an_export_of_a_tracker_shows_where_links_come_from(capsys):
    path = Path(__file__).parent / "corpora" / "readers" / "issues.json"
    main(config("dataset=github", f"dataset.path={path}", "dataset.name=hedgerow"))
    printed = capsys.readouterr().out
    assert ["links:", "state", "reason", "21"] in lines_of(printed)
    assert ["links:", "comment", "3"] in lines_of(printed)
    assert "hedgerow: the export has no history, so titles and fields are those at export time (gh cannot" in printed
    missing = "issues without the field closedAt (whether a candidate was still open when a report came in): 60"
    assert f"hedgerow: {missing} (first: 136)" in printed


def test_rows_whose_names_do_not_tell_what_they_count_are_explained(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    path = Path(__file__).parent / "corpora" / "readers" / "issues.json"
    main(config("dataset=github", f"dataset.path={path}"))
    printed = capsys.readouterr().out
    assert "A group of three has 3 pairs, even if only 2 of them are linked." in " ".join(printed.split())
    assert "labels: distinct names; on GitHub, 'duplicate'" in " ".join(printed.split())
    # With COLUMNS, lines break between words in a pipe too.
    assert max(map(len, printed.splitlines())) <= 60


def test_a_history_of_changes_is_described_with_its_reports(tmp_path, capsys):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Fix bug 7"], check=True)
    (tmp_path / "bugs.csv").write_text("Issue_id,Title\n7,It fails\n")
    reports = ["dataset@dataset.reports=csv", f"dataset.reports.path={tmp_path}/bugs.csv"]
    reports.append("dataset.reports.columns.duplicate=null")
    main(
        config("dataset=git", f"dataset.path={tmp_path}", "dataset.name='mine[/b]'", "dataset.cache_dir=null", *reports)
    )
    printed = capsys.readouterr().out
    assert ["commits", "1"] in lines_of(printed)
    assert ["reports", "with", "a", "fix", "1"] in lines_of(printed)
    assert "mine[/b]: fixes without inducing commits, no parent: 1" in printed


def test_notices_are_printed_as_they_stand(tmp_path, capsys):
    (tmp_path / "bugs.csv").write_text("Issue_id,Title,Duplicated_issue\n1,[b]ugs,[x]\n")
    main(config("dataset=csv", f"dataset.path={tmp_path}/bugs.csv", "dataset.name=mine"))
    assert "mine: duplicate links to a report that is not in the file: 1, dropped; the reports are kept (first: "
    assert "names [x], row 2)" in capsys.readouterr().out


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_datasets_ask_for_their_files(tmp_path, name):
    dataset = config(f"dataset={name}", f"data_dir={tmp_path}").dataset
    with pytest.raises(Exception, match=f"gedbd download dataset={name} data_dir={tmp_path}"):
        instantiate(dataset)
    assert dataset.rows.train + dataset.rows.test == dataset.rows.reports


def test_demo_instantiates_to_a_corpus():
    assert len(instantiate(config().dataset)) == 425


@pytest.mark.parametrize("name", [*PUBLISHED, "eclipse_labels", "thunderbird_labels"])
def test_published_reports_are_linked_to_their_bugzilla(name):
    template = config(f"dataset={name}").dataset.url_template
    home = "https://bugs.eclipse.org/bugs" if name[:3] in {"ecl", "jdt"} else "https://bugzilla.mozilla.org"
    assert template == home + "/show_bug.cgi?id={issue_id}"
    check_template(template)
