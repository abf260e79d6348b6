"""The commands that store a tracker and search it, one after the other, as a user runs them."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import mistakes
from run_commands import commands_in

import gedbd
from gedbd.corpora.bug_report import Report, as_table
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.stored_index import open_index

pytestmark = pytest.mark.integration

DEMO = pd.read_csv(Path(gedbd.__file__).parent / "corpora" / "demo.csv", dtype=str, keep_default_na=False)
FIELDS = ["text=fields", "encoder.max_tokens=128", "text.cleaning.boilerplate=mark", "text.cleaning.urls=mark"]
FIELDS += ["encoder.prefix='query: '"]
OLD_MATCHING = '{"weights": {}, "confidence": {}, "threshold": 0.4, "precision": 0.7}'


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs commands in a folder with a backtest."""
    with commands_in(tmp_path_factory.mktemp("index")) as command:
        command("backtest", "dataset=demo", "encoder=tiny", "max_replayed=60", "hydra.run.dir=tested")
        yield command


@pytest.fixture
def update(run):
    """Brings the index in a folder up to date; gives how many reports were added, updated, unchanged and deleted."""

    def bring(out, *options):
        counts, next_step = run("index", f"out={out}", *options).splitlines()[-2:]
        assert next_step == f'search the index: gedbd search index={out} "..."'
        assert counts.startswith(f"{out}: ")
        return tuple(int(one.split()[0]) for one in counts.removeprefix(f"{out}: ").split(", in ")[0].split(", "))

    return bring


opened = partial(open_index, cache_dir="cache")


def demo(name="bugs.csv", **changes):
    """The demo corpus as a file, some of its cells changed: id to (column, value), or to None for a report left out."""
    table = DEMO.set_index("Issue_id", drop=False)
    for one, change in changes.items():
        if change is None:
            table = table.drop(index=one)
        else:
            table.loc[one, change[0]] = change[1]
    table.to_csv(name, index=False)
    return [f"dataset.path={name}", *(f"dataset.columns.{one}=null" for one in ("product", "os", "attachments"))]


def vectors(index):
    return {row.issue_id: np.frombuffer(row.vector, dtype=np.float32) for row in index.store.file.features()[1]}


def check_reading(index):
    """A stored report that comes in again is read like the stored one."""
    stored = vectors(index)
    for one in ("1001", "1077", "2248", "2395"):
        (vector,) = index.store.model.encode(as_table([index.get(one)]))
        np.testing.assert_allclose(vector, stored[one], atol=1e-5)
        assert float(vector @ stored[one]) == pytest.approx(1, abs=1e-4)


def test_an_index_follows_its_tracker(run, update):
    assert update("followed", "run=tested") == (425, 0, 0, 0)
    assert update("followed", "run=tested") == (0, 0, 425, 0)
    assert update("followed", "run=tested", *demo()) == (0, 0, 425, 0)
    with pytest.raises(
        SystemExit, match=r"the ranker and the probabilities of a backtest, .*; to go on, set replace=true"
    ):
        update("followed", "dataset=demo", "encoder=tiny")
    changes = {"1001": ("Title", "Zebra stripes on the toolbar"), "1006": None, "1077": ("Status", "REOPENED")}
    assert update("followed", "run=tested", *demo(**changes)) == (0, 2, 422, 1)
    index = opened("followed")
    assert (len(index), index.get("1006"), index.get("1077").status) == (424, None, "REOPENED")
    (best, *_) = index.search(Report("zebra stripes"))
    assert (best.best.issue_id, best.explanation.terms) == ("1001", ("stripes", "zebra"))
    index.close()
    assert update("followed", "run=tested", *demo()) == (1, 2, 422, 0)
    ids = DEMO["Issue_id"].tolist()
    half = demo("half.csv", **dict.fromkeys(ids[:212]))  # 212 of 425 are not most of them
    assert update("followed", "run=tested", *half) == (0, 0, 213, 212)
    few = demo("few.csv", **dict.fromkeys(ids[:400]))
    with pytest.raises(SystemExit, match=r"^error: .*188 of its 213 reports are not in few .* use another index; to"):
        update("followed", "run=tested", *few)
    assert update("followed", "run=tested", "replace=true", *few) == (0, 0, 25, 188)


def test_an_index_keeps_its_template_until_another_is_given(update):
    table = demo()
    template = "dataset.url_template='https://{}.example.org/{{issue_id}}'"
    assert update("linking", "run=tested", *table, template.format("bugs")) == (425, 0, 0, 0)
    assert update("linking", "run=tested", *table) == (0, 0, 425, 0)
    assert opened("linking").get("1001").url == "https://bugs.example.org/1001"
    assert update("linking", "run=tested", *table, template.format("issues")) == (0, 425, 0, 0)
    assert opened("linking").get("1001").url == "https://issues.example.org/1001"
    assert update("linking", "run=tested", *table, "replace=true") == (0, 425, 0, 0)
    assert opened("linking").get("1001").url == ""


def test_links_of_triagers_stay_and_those_of_the_tracker_follow_it(update):
    update("linked", "run=tested", *demo())
    index = opened("linked")
    index.link("1001", "1006", "triager")
    update("linked", "run=tested", *demo())
    assert index.search(index.get("1001"), 50)
    assert ("1001", "1006", "triager") in index.store.file.links()
    alone = demo(**dict.fromkeys(DEMO["Issue_id"], ("Duplicated_issue", "")))
    assert update("linked", "run=tested", *alone) == (0, 0, 425, 0)
    assert index.store.file.links() == [("1001", "1006", "triager")]


@pytest.fixture(scope="module")
def trained(run):
    """A backtest of a trained encoder."""
    run("train", "encoder=tiny", "trainer=smoke", "graph=none", "ranking.parts=[]", "hydra.run.dir=training")
    run("backtest", "dataset=demo", "run=training", "max_replayed=60", "hydra.run.dir=tested_trained")
    return "run=tested_trained"


@pytest.mark.slow  # another training
def test_an_index_takes_another_model_and_keeps_the_links_of_triagers(update, trained):
    update("other", "run=tested")
    former = opened("other")
    former.link("1001", "1006", "triager")
    assert update("other", trained) == (425, 0, 0, 0)
    assert update("other", trained) == (0, 0, 425, 0)
    index = opened("other")
    assert former.search(Report("crash")) == index.search(Report("crash"))
    assert vectors(index)["1001"].shape == (16,)
    check_reading(index)
    assert ("1001", "1006", "triager") in index.store.file.links()


@pytest.mark.slow
def test_a_backtest_is_used_from_another_folder(run, trained, tmp_path, monkeypatch):
    tracker = demo("here.csv")
    run("backtest", "dataset=csv", *tracker, "run=training", "max_replayed=60", "hydra.run.dir=tested_here")
    home = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert "stored: 425 added" in run("index", f"run={home}/tested_here", "out=stored")
    assert len(IndexStore(tmp_path / "stored" / FILE).contents()) == 425


@pytest.mark.slow  # a backtest
def test_texts_of_fields_are_read_like_the_stored_ones(run, update):
    ids = DEMO["Issue_id"].tolist()[:60]
    changes = {one: ("Description", f"Please fill in the form\nIt is {one} that fails.") for one in ids}
    tracker = demo("forms.csv", **changes)
    options = ["encoder=tiny", "max_replayed=60", *FIELDS, "hydra.run.dir=tested_fields"]
    run("backtest", "dataset=csv", *tracker, *options)
    assert update("fields", "run=tested_fields") == (425, 0, 0, 0)
    index = opened("fields")
    assert index.store.model.encode.text.cleaning.shared == {"please fill in the form"}
    check_reading(index)
    tracker = demo("forms.csv", **changes, **{"2395": ("Title", "Please fill in the form")})
    assert update("fields", "run=tested_fields", *tracker) == (0, 1, 424, 0)
    check_reading(index)
    index.add([Report("new", "Please fill in the form\nnothing", "new")])
    check_reading(index)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "encoder"), [("openvino", "QueryEncoder"), ("openvino_int8", "LoadedEncoder")])
def test_another_backend_reads_queries_like_the_stored_reports(update, backend, encoder):
    assert update(f"by_{backend}", "run=tested", f"backend={backend}") == (425, 0, 0, 0)
    assert update(f"by_{backend}", "run=tested", f"backend={backend}") == (0, 0, 425, 0)
    index = opened(f"by_{backend}")
    assert type(index.store.model.encode.encoder).__name__ == encoder
    check_reading(index)
    index.add([Report("zebra stripes", issue_id="z")])
    assert index.search(Report("zebra stripes"))[0].best.issue_id == "z"


def test_without_a_backtest_the_default_model_searches_and_suggests_nothing(run):
    told = " ".join(run("index", "dataset=demo", "encoder=tiny", "out=default").split())
    assert "Nothing is suggested automatically: the probabilities were learned from other trackers;" in told
    assert "run gedbd backtest to measure them on this one." in told
    assert "default: 425 added, 0 updated, 0 unchanged, 0 deleted" in told
    index = opened("default")
    found = index.search(index.get("2395"))
    assert "2395" not in [match.best.issue_id for match in found]
    assert 0 < found[0].probability < 1
    assert index.matching.target.threshold is None


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("options", "message"), mistakes("index"))
def test_mistakes_are_told_in_one_line(run, options, message):
    Path("file.txt").touch()
    Path("strange").mkdir(exist_ok=True)
    (Path("strange") / FILE).write_text("no database " * 100)
    for name in ("gone", "older"):
        shutil.copytree("tested", name, dirs_exist_ok=True)
    Path("older/matching.json").write_text(OLD_MATCHING)
    config = Path("gone/config.yaml")
    config.write_text(config.read_text().replace("run: null", "run: nowhere"))
    with pytest.raises(SystemExit, match=message):
        run("index", *options.split())
    assert not (Path("new") / FILE).exists()


def test_an_index_of_an_older_version_is_refused_and_can_be_updated(update):
    update("aged", "run=tested")
    store = IndexStore(Path("aged") / FILE)
    with store.transaction():
        key = model_key(store.about()["settings"], OLD_MATCHING, store.weights())
        store.write_about({"matching": OLD_MATCHING, "model": key})
    with pytest.raises(ValueError, match=r"^aged was written by an older version of gedbd: run gedbd backtest"):
        opened("aged")
    assert update("aged", "run=tested") == (425, 0, 0, 0)
    opened("aged").close()


@pytest.mark.parametrize(
    "encoder", ["encoder=tiny", pytest.param("encoder=minilm", marks=[pytest.mark.slow])], ids=["tiny", "minilm"]
)
def test_an_issue_template_is_neither_compared_nor_quoted(tmp_path, encoder):
    files = Path(__file__).parent / "field_cases"
    with commands_in(tmp_path) as command:
        said = command("index", f"dataset.path={files / 'issue_template.json'}", "out=index", encoder)
        assert "template" in said
        found = command("search", "index=index", f"file={files / 'issue_template_query.json'}", "top_k=9", "json=true")
    matches = json.loads(found)["matches"]
    quoted = [sentence for match in matches for pair in match["explanation"]["sentences"] for sentence in pair[:2]]
    for line in ("Describe", "reproduce", "Expected", "searched", "Thank you"):
        assert not any(line in sentence for sentence in quoted)
    if encoder == "encoder=minilm":
        assert matches[0]["master"]["issue_id"] == "3"


@pytest.mark.slow
@pytest.mark.parametrize(("language", "warns"), [("en", False), ("zh", True), ("ru", True)])
def test_an_encoder_that_does_not_know_the_script_is_told(tmp_path, caplog, language, warns):
    said = {"en": "Crash when a file is opened", "zh": "打开文件时程序崩溃", "ru": "Сбой при открытии файла"}[language]
    table = pd.DataFrame({"id": range(30), "title": [f"{said} {number}" for number in range(30)]})
    table.to_csv(tmp_path / "bugs.csv", index=False)
    with commands_in(tmp_path) as command:
        command("index", "dataset.path=bugs.csv", "out=index", "encoder=minilm")
    assert ("choose a multilingual encoder" in caplog.text) == warns
