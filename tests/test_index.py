"""The commands that store a tracker and search it, one after the other, as a user runs them."""

import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gedbd.commands.backtest
import gedbd.commands.index
import gedbd.train
from gedbd.triage.bug_report import Report, as_table
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.stored_index import open_index

DEMO = Path(gedbd.train.__file__).parent / "corpora" / "demo.csv"
FIELDS = ["text=fields", "encoder.max_tokens=128", "text.cleaning.boilerplate=mark", "text.cleaning.urls=mark"]
FIELDS += ["encoder.prefix='query: '"]
DATES = "Created_time"
OLD_MATCHING = '{"weights": {}, "confidence": {}, "threshold": 0.4, "precision": 0.7}'


def through(patch, command, *options):
    patch.setattr(sys, "argv", ["gedbd", *options])
    command.main()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a backtest, and a way of running a command there."""
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEDBD_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        through(
            patch, gedbd.commands.backtest, "dataset=demo", "encoder=tiny", "max_replayed=60", "hydra.run.dir=tested"
        )
        yield folder, partial(through, patch)


@pytest.fixture
def update(home, capsys):
    """Runs the command of the index and gives what it says of the changes."""

    def run(*options):
        capsys.readouterr()
        home[1](gedbd.commands.index, *options)
        counts, next_step = capsys.readouterr().out.splitlines()[-2:]
        assert next_step.startswith("search the index: gedbd search index=")
        return counts.split(", in ")[0]

    return run


def demo(folder, name="bugs.csv", **changes):
    """The demo corpus as a file, some of its cells changed: id to (column, value), or to None for a report left out."""
    table = pd.read_csv(DEMO, dtype=str, keep_default_na=False).set_index("Issue_id", drop=False)
    for one, change in changes.items():
        one = one.strip("_")
        if change is None:
            table = table.drop(index=one)
        else:
            table.loc[one, change[0]] = change[1]
    table.to_csv(folder / name, index=False)
    return [
        f"dataset.path={name}",
        "dataset.columns.product=null",
        "dataset.columns.os=null",
        "dataset.columns.attachments=null",
    ]


def ids(folder):
    store = IndexStore(folder / FILE)
    found = set(store.contents())
    store.close()
    return found


def test_an_index_follows_its_tracker(home, update):
    folder = home[0]
    assert update("run=tested", "out=followed") == "followed: 425 added, 0 updated, 0 unchanged, 0 deleted"
    assert update("run=tested", "out=followed") == "followed: 0 added, 0 updated, 425 unchanged, 0 deleted"
    same = demo(folder)
    assert update("run=tested", "out=followed", *same) == "followed: 0 added, 0 updated, 425 unchanged, 0 deleted"
    changed = demo(folder, _1001=("Title", "Zebra stripes on the toolbar"), _1006=None, _1077=("Status", "REOPENED"))
    assert update("run=tested", "out=followed", *changed) == "followed: 0 added, 2 updated, 422 unchanged, 1 deleted"
    index = open_index(folder / "followed", str(folder / "cache"))
    assert (len(index), index.get("1006"), index.get("1077").status) == (424, None, "REOPENED")
    assert index.search(Report("zebra stripes"))[0].best.issue_id == "1001"
    assert index.search(Report("zebra stripes"))[0].explanation.terms == ("stripes", "zebra")
    index.close()
    assert (
        update("run=tested", "out=followed", *demo(folder)) == "followed: 1 added, 2 updated, 422 unchanged, 0 deleted"
    )


@pytest.mark.slow
def test_a_template_given_to_the_index_alone_links_the_reports_of_its_backtest(home, update):
    update("run=tested", "out=linked")
    template = "dataset.url_template='https://bugs.example.org/show_bug.cgi?id={issue_id}'"
    assert update("run=tested", "out=linked", template).endswith("0 added, 425 updated, 0 unchanged, 0 deleted")
    index = open_index("linked", str(home[0] / "cache"))
    assert index.get("1001").url == "https://bugs.example.org/show_bug.cgi?id=1001"
    index.close()


def test_links_of_triagers_stay_and_those_of_the_tracker_follow_it(home, update):
    folder = home[0]
    update("run=tested", "out=linked", *demo(folder))
    index = open_index(folder / "linked", str(folder / "cache"))
    (before,) = (set(one.members) for one in index.search(Report("x", issue_id="y"), 50)[:1])
    index.link("1001", "1006", "triager")
    update("run=tested", "out=linked", *demo(folder))
    assert index.search(index.get("1001"), 50)
    assert ("1001", "1006", "triager") in index.store.links()
    alone = demo(folder, **{f"_{one}": ("Duplicated_issue", "") for one in ids(folder / "linked")})
    assert update("run=tested", "out=linked", *alone) == "linked: 0 added, 0 updated, 425 unchanged, 0 deleted"
    assert index.store.links() == [("1001", "1006", "triager")]
    assert before
    index.close()


@pytest.fixture(scope="module")
def trained(home):
    """A backtest of a trained encoder."""
    home[1](gedbd.train, "encoder=tiny", "trainer=smoke", "graph=none", "ranking.parts=[]", "hydra.run.dir=training")
    home[1](gedbd.commands.backtest, "dataset=demo", "run=training", "max_replayed=60", "hydra.run.dir=tested_trained")
    return "tested_trained"


@pytest.mark.slow  # another training
def test_an_index_takes_another_model_and_keeps_the_links_of_triagers(home, update, trained):
    folder = home[0]
    update("run=tested", "out=other")
    opened = open_index(folder / "other", str(folder / "cache"))
    opened.link("1001", "1006", "triager")
    assert update(f"run={trained}", "out=other") == "other: 425 added, 0 updated, 0 unchanged, 0 deleted"
    assert update(f"run={trained}", "out=other") == "other: 0 added, 0 updated, 425 unchanged, 0 deleted"
    index = open_index(folder / "other", str(folder / "cache"))
    assert opened.search(Report("crash")) == index.search(Report("crash"))
    stored = {row.issue_id: np.frombuffer(row.vector, dtype=np.float32) for row in index.store.features()[1]}
    assert stored["1001"].shape == (16,)
    check_reading(index)
    assert ("1001", "1006", "triager") in index.store.links()


@pytest.mark.slow
def test_a_trained_encoder_is_not_measured_on_another_corpus(home, trained):
    folder, command = home
    with pytest.raises(SystemExit, match=r"^error: run=training: the corpus other has changed since"):
        command(gedbd.commands.backtest, "run=training", *demo(folder, "other.csv", _1001=("Title", "Something else")))


@pytest.mark.slow
def test_a_backtest_is_used_from_another_folder(home, trained, tmp_path, monkeypatch, capsys):
    folder, command = home
    tracker = demo(folder, "here.csv")
    command(
        gedbd.commands.backtest, "dataset=csv", *tracker, "run=training", "max_replayed=60", "hydra.run.dir=tested_here"
    )
    monkeypatch.chdir(tmp_path)
    command(gedbd.commands.index, f"run={folder}/tested_here", "out=stored")
    assert "stored: 425 added" in capsys.readouterr().out
    assert len(ids(tmp_path / "stored")) == 425


def check_reading(index, atol=1e-5):
    """A stored report that comes in again is read like the stored one."""
    stored = {row.issue_id: np.frombuffer(row.vector, dtype=np.float32) for row in index.store.features()[1]}
    for one in ("1001", "1077", "2248", "2395"):
        (vector,) = index.encode(as_table([index.get(one)]))
        np.testing.assert_allclose(vector, stored[one], atol=atol)
        assert float(vector @ stored[one]) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow  # a backtest
def test_texts_of_fields_are_read_like_the_stored_ones(home, update):
    folder = home[0]
    changes = {
        f"_{one}": ("Description", f"Please fill in the form\nIt is {one} that fails.") for one in ids_of_demo()[:60]
    }
    tracker = demo(folder, "forms.csv", **changes)
    home[1](
        gedbd.commands.backtest,
        "dataset=csv",
        *tracker,
        "encoder=tiny",
        "max_replayed=60",
        *FIELDS,
        "hydra.run.dir=tested_fields",
    )
    assert update("run=tested_fields", "out=fields") == "fields: 425 added, 0 updated, 0 unchanged, 0 deleted"
    index = open_index(folder / "fields", str(folder / "cache"))
    assert index.encode.text.cleaning.shared == {"please fill in the form"}
    check_reading(index)
    more = [*tracker[1:], "dataset.path=forms.csv"]
    demo(folder, "forms.csv", **changes, _2395=("Title", "Please fill in the form"))
    assert update("run=tested_fields", "out=fields", *more) == "fields: 0 added, 1 updated, 424 unchanged, 0 deleted"
    check_reading(index)
    index.add([Report("new", "Please fill in the form\nnothing", "new")])
    check_reading(index)
    index.close()


def ids_of_demo():
    return pd.read_csv(DEMO, dtype=str)["Issue_id"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["openvino", "openvino_int8"])
def test_another_backend_reads_queries_like_the_stored_reports(home, update, backend):
    folder = home[0]
    out = f"by_{backend}"
    assert (
        update("run=tested", f"out={out}", f"backend={backend}")
        == f"{out}: 425 added, 0 updated, 0 unchanged, 0 deleted"
    )
    assert update("run=tested", f"out={out}", f"backend={backend}").startswith(
        f"{out}: 0 added, 0 updated, 425 unchanged"
    )
    index = open_index(folder / out, str(folder / "cache"))
    assert type(index.encode.encoder.prepare()).__name__ == "PreparedOpenVino"
    check_reading(index)
    index.add([Report("zebra stripes", issue_id="z")])
    assert index.search(Report("zebra stripes"))[0].best.issue_id == "z"
    index.close()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["out=new"],
            "dataset=csv dataset.path=bugs.csv for the default ranker, or run= to a folder",
        ),
        (["run=tested"], "out= is required, "),
        (
            ["run=nowhere", "out=new"],
            "nowhere: no such folder; give a folder written by gedbd backtest",
        ),
        (
            ["run=cache", "out=new"],
            "cache is not a finished backtest: it has no matching.json; run gedbd backtest run=cache",
        ),
        (
            ["run=older", "out=new"],
            "^error: older was written by an older version of gedbd: run gedbd backtest again",
        ),
        (["run=gone", "out=new"], "nowhere is not a run folder"),
        (["run=tested", "out=file.txt"], "out=file.txt is a file: give a new or existing folder"),
        (["run=tested", "out=strange"], "index.sqlite is not an index .file is not a database."),
        (["run=tested", "out=new", "dataset.path=nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_mistakes_are_told_in_one_line(home, options, message):
    folder, command = home
    (folder / "file.txt").touch()
    (folder / "strange").mkdir(exist_ok=True)
    (folder / "strange" / FILE).write_text("no database " * 100)
    shutil.copytree(folder / "tested", folder / "gone", dirs_exist_ok=True)
    shutil.copytree(folder / "tested", folder / "older", dirs_exist_ok=True)
    (folder / "older" / "matching.json").write_text(OLD_MATCHING)
    config = (folder / "gone" / "config.yaml").read_text()
    (folder / "gone" / "config.yaml").write_text(config.replace("run: null", "run: nowhere"))
    with pytest.raises(SystemExit, match=message):
        command(gedbd.commands.index, *options)
    assert not (folder / "new" / FILE).exists()


def test_an_index_of_an_older_version_is_refused_and_can_be_updated(home, update):
    folder = home[0]
    update("run=tested", "out=aged")
    store = IndexStore(folder / "aged" / FILE)
    with store.transaction():
        key = model_key(store.about()["settings"], OLD_MATCHING, store.weights())
        store.write_about({"matching": OLD_MATCHING, "model": key})
    store.close()
    with pytest.raises(ValueError, match=r"^\S*aged was written by an older version of gedbd: run gedbd backtest"):
        open_index(folder / "aged", str(folder / "cache"))
    assert update("run=tested", "out=aged") == "aged: 425 added, 0 updated, 0 unchanged, 0 deleted"
    open_index(folder / "aged", str(folder / "cache")).close()
