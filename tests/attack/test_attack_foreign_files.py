"""A run folder, a backtest or an index of somebody else runs no code, reads no variable and calls nobody."""

import json
import re
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from omegaconf import DictConfig, OmegaConf
from optuna import create_study
from refusals import call, refuses
from run_commands import composed
from small_tracker import MATCHING

import gedbd.commands.index
import gedbd.commands.search
from gedbd.configuration.allowed_targets import VARIABLE, check_options, read_settings
from gedbd.configuration.command import CONF_DIR
from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.experiments.callbacks import EpochPruning
from gedbd.experiments.loggers import read_stored
from gedbd.experiments.resuming import WholeCheckpointIO, resumed_options
from gedbd.experiments.run_folder import CONFIG, SCHEMA, VERSIONS, Run, find_run, read_saved, save_run, saved_options
from gedbd.experiments.run_folder import MATCHING as MATCHING_FILE
from gedbd.experiments.sweep_jobs import STUDY
from gedbd.service.app import create_app
from gedbd.triage.index_building import find_backtest
from gedbd.triage.storage.index_folder import CACHE, FILE
from gedbd.triage.stored_index import open_index

pytestmark = pytest.mark.slow


def take(*arguments: object, **options: object) -> None:
    raise AssertionError("code from a file has run")


EVIL = f"{__name__}.take"
LOADER = "gedbd.encoders.loaded_encoder.load_encoder"
OTHER_CODE: list[tuple[str, Any]] = [
    ("encoder._target_", "os.system"),
    ("encoder._target_", EVIL),
    ("encoder._target_", None),
    ("encoder.model", {"_target_": EVIL}),
    ("encoder.fine_tuning", {"a": [{"b": {"_target_": EVIL, "_args_": ["id"], "_partial_": True}}]}),
    ("text.tokens", [{"_target_": EVIL}]),
    ("text._target_", "gedbd.triage.stored_index.open_index"),
    ("backend._target_", "gedbd.corpora.readers.csv_export.read_csv"),
    ("backend._target_", "hydra.utils.instantiate"),
    ("backend._target_", "gedbd.configuration.allowed_targets.os.system"),
    ("text.captions", "pkg://gedbd.triage.stored_index/demo.csv"),
    ("encoder", {"_target_": LOADER, "_args_": ["a", "evil/model", "mean", 8, 8]}),
]
CHOICES = ["text=fields", "graph=dense_bert", "trainer=fsdp"]
INDEX_SECTIONS = ("encoder", "text", "backend")
ENDPOINT = {"_target_": "gedbd.retrieval.report_ranking.llm_check.LlmCheck", "base_url": "https://evil.example/v1"}
OPENVINO = {"_target_": "gedbd.encoders.openvino_backend.OpenVino", "precision": "float32"}
RAY = {"_target_": "gedbd.encoders.ray_backend.Ray", "address": "evil.example:6379", "workers": 2, "cpus": 1, "gpus": 0}
INTERPOLATIONS = ["${oc.env:HOME}", "${oc.decode:'[1]'}", "a ${oc.env:HOME}", "${encoder.name}", "\\${x}"]


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """The options of a small run, as its folder holds them."""
    cfg = composed("train", "encoder=tiny", *CHOICES)
    cfg.trainer.precision, cfg.trainer.devices, cfg.trainer.num_nodes = "32-true", 1, 1
    return saved_options(cfg)


@pytest.fixture
def run(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Leaves a run folder with some options."""

    def leave(options: dict[str, Any]) -> Path:
        (tmp_path / CONFIG).write_text(json.dumps(options))
        (tmp_path / VERSIONS).write_text(json.dumps({"schema": SCHEMA}))
        for name in ("best.ckpt", "last.ckpt"):
            WholeCheckpointIO().save_checkpoint({"state_dict": {}}, tmp_path / "checkpoints" / name)
        return tmp_path

    return leave


@pytest.fixture
def _evil_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("raise SystemExit('taken')")
    monkeypatch.syspath_prepend(tmp_path)


def resumed(folder: Path, *more: str, **choices: str) -> DictConfig:
    """The options with which a command line goes on with a run."""
    words = [f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}", *more]
    return resumed_options(composed("train", *words), words, choices)


def settings_of(options: dict[str, Any]) -> str:
    """What an index says of the same encoder."""
    return json.dumps({name: options[name] for name in INDEX_SECTIONS})


def changed(options: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.partition(".")
    return options | {section: options[section] | {name: value} if name else value}


def test_what_gedbd_has_written_itself_is_read(options, run, tmp_path, make_corpus, monkeypatch):
    assert read_saved(run(options)).encoder.name == "tiny"
    assert read_saved(run(changed(options, "dataset.path", "pkg://gedbd.corpora/demo.csv")))
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    save_run(tmp_path / "run", composed("baseline", "name=fusion", "encoder=tiny"), make_corpus([0, 0, 1]))
    assert read_saved(tmp_path / "run").name == "fusion"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [CONFIG, "versions.json"]


@pytest.mark.usefixtures("_evil_package")
@pytest.mark.parametrize(("key", "value"), OTHER_CODE)
def test_a_run_or_an_index_that_names_other_code_is_refused(options, run, key, value):
    hostile = changed(options, key, value)
    with refuses(r"config.yaml: .*(=.*|\._args_) is not run, because a file may only (name|set)"):
        find_run(run(hostile), "best")
    with refuses(r"^index=other: .*is not run"):
        read_settings(settings_of(hostile), "index=other", "cache")


@pytest.mark.parametrize("text", INTERPOLATIONS)
def test_a_run_with_an_interpolation_is_refused_and_shown_nowhere(options, run, text):
    folder = run(changed(options, "encoder.name", text))
    for read in (partial(find_run, folder, "best"), lambda: Run(folder).config):
        with refuses(r"config.yaml(:| is damaged: ).*(holds an interpolation|Error)"):
            read()


def test_an_endpoint_that_a_run_names_gets_no_reports(options, run, capsys):
    boosted = {
        "_target_": "gedbd.retrieval.report_ranking.report_scorer.LearntReports",
        "llm": ENDPOINT | {"model": "small"},
    }
    folder = run(options | {"llm": ENDPOINT, "baselines": {"boosted": boosted}, "also": {"base_url": None}})
    cfg, _ = find_run(folder, "best")
    assert cfg.llm.base_url is cfg.baselines.boosted.llm.base_url is None
    assert cfg.baselines.boosted.llm.model == "small"
    assert "evil.example" not in OmegaConf.to_yaml(cfg)
    output = capsys.readouterr().out
    for section in ("llm", "baselines"):
        assert re.search(
            rf"{section}\S*base_url=https://evil.example/v1 is ignored because it comes from a file", output
        )
    assert "also" not in output


def test_a_backtest_names_no_cluster_and_no_endpoint(options, run, capsys):
    folder = run(options | {"backend": RAY, "run": None, "llm": ENDPOINT})
    (folder / MATCHING_FILE).write_text(MATCHING.as_json())
    cfg, _, _ = find_backtest(folder)
    assert cfg.backend.address is cfg.llm.base_url is None
    assert read_settings(settings_of(options | {"backend": RAY}), "index=other", "mine").backend.address is None
    assert capsys.readouterr().out.count("backend.address=evil.example:6379 is ignored because it comes from a") == 2


def test_caches_are_written_where_this_user_has_them(options, run, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", "/mine")
    encoder = options["encoder"] | {"cache_dir": "/theirs"}
    theirs = options | {"backend": OPENVINO | {"cache_dir": "/theirs"}, "encoder": encoder}
    folder = run(theirs | {"cache_dir": "/theirs", "baselines": {"a": encoder}})
    for argument, expected in ((None, "/mine"), ("/asked", "/asked")):
        cfg, _ = find_run(folder, "best", argument)
        assert "/theirs" not in OmegaConf.to_yaml(cfg)
        assert cfg.cache_dir == cfg.backend.cache_dir == cfg.encoder.cache_dir == expected
    assert "/theirs" not in OmegaConf.to_yaml(resumed(folder, "cache_dir=/asked"))
    assert "/theirs" not in OmegaConf.to_yaml(read_settings(settings_of(theirs), "index=other", "/asked"))


def test_a_model_on_the_hub_that_a_file_names_is_not_downloaded(options, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    bert = OmegaConf.to_container(composed("train", "encoder=bert").encoder)
    evil = options | {"encoder": bert | {"model": "evil/model"}}
    folder = run(evil)
    reads = [
        partial(find_run, folder, "best"),
        partial(resumed, folder),
        partial(read_settings, settings_of(evil), "x", "c"),
    ]
    for read in reads:
        with refuses(r"encoder.model=evil/model is not downloaded.*hf download evil/model"):
            read()
    words = ["encoder=bert", "encoder.model=evil/model", *CHOICES]
    assert resumed(run(saved_options(composed("train", *words))), *words).encoder.model == "evil/model"
    with refuses(r"baselines.a.encoder.model=evil is not downloaded"):
        find_run(run(options | {"baselines": {"a": {"encoder": bert | {"model": "evil"}}}}), "best")
    for name in (bert["model"], str(tmp_path)):
        assert find_run(run(options | {"encoder": bert | {"model": name}}), "best")[0].encoder.model == name
    run(evil)
    stored = tmp_path / "hub" / "models--evil--model"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("0" * 40)
    (stored / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (stored / "snapshots" / ("0" * 40) / "config.json").write_text("{}")
    assert [read() for read in reads[::2]]  # it was downloaded by this user


def test_the_command_line_may_name_own_code_and_a_run_with_it_goes_on(options, run, monkeypatch):
    folder = run(options | {"loss": {"_target_": EVIL}})
    with refuses(f"if you trust it, set {VARIABLE}={EVIL}"):
        read_saved(folder)
    assert read_saved(folder, given={"loss": {"_target_": EVIL}}).loss._target_ == EVIL
    monkeypatch.setenv(VARIABLE, f"other.name,{EVIL}")
    assert read_saved(folder).loss._target_ == EVIL


def test_a_run_to_resume_joins_no_cluster_by_itself(options, run):
    folder = run(options | {"backend": RAY})
    with refuses(r"to use it again, set backend=ray backend.address=evil.example:6379"):
        resumed(folder, backend="torch")
    again = resumed(
        folder, "encoder=tiny", *CHOICES, "backend=ray", "backend.address=evil.example:6379", "backend.workers=2"
    )
    assert again.backend.address == "evil.example:6379"


def test_a_run_to_resume_sends_metrics_only_if_the_command_line_says_so(options, run):
    logger = {"_target_": "pytorch_lightning.loggers.WandbLogger", "project": "theirs", "entity": "evil"}
    folder = run(changed(options, "encoder.base_url", "https://evil.example"))
    with refuses(r"its run used https://evil.example; to use it again, set encoder.base_url"):
        resumed(folder, logger="")
    run(options | {"logger": logger})
    with refuses(r"to send them again, set logger=wandb, otherwise logger=csv"):
        resumed(folder, logger="")
    assert not resumed(folder, "logger=csv", logger="").logger
    own = resumed(folder, "logger=wandb", "logger.wandb.project=mine", logger="").logger.wandb
    assert (own.project, own.entity) == ("mine", None)


@pytest.mark.parametrize("value", [{"_target_": EVIL}, [{"_target_": EVIL}], 3])
def test_a_stored_run_of_wandb_is_text(tmp_path, value):
    file = tmp_path / "wandb.json"
    for content, message in (
        ({"id": "a", "name": value, "group": None}, r"wandb.json is damaged: name is not text"),
        ({"id": "${oc.env:HOME}"}, r"wandb.json: id holds an interpolation"),
    ):
        file.write_text(json.dumps(content))
        with refuses(message):
            read_stored(file)
    file.write_text(json.dumps({"id": "a", "experiment": value}))
    assert read_stored(file) == {"id": "a", "name": None, "group": None}


@pytest.mark.parametrize(
    "pruner",
    [{"_target_": "optuna.pruners._percentile.np.load", "file": "evil.npy", "allow_pickle": True}, {"_target_": EVIL}],
)
def test_a_study_names_pruners_only(tmp_path, pruner):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = create_study(storage=storage, study_name=STUDY)
    study.set_user_attr("pruner", {"_target_": "optuna.pruners.PatientPruner", "wrapped_pruner": pruner})
    with refuses(r"study.db: .* is not a pruner of Optuna"):
        EpochPruning(0, storage)._should_prune(0, 0.5)


@pytest.mark.usefixtures("_evil_package")
def test_a_package_of_weights_is_not_imported_to_find_it():
    with refuses(r"encoder.package=evil.sub is not the name of a package"):
        load_encoder("minilm", "none", "cls", 8, 8, package="evil.sub", sha256="0")


DAMAGED = {
    "empty": b"",
    "binary": bytes(range(256)) * 4,
    "cut": b"encoder:\n  _target_: gedbd.encoders.enc",
    "a word": b"hello",
    "a list": b"- 1\n- 2\n",
    "twice": b"seed: 1\nseed: 2\n",
    "deep": b"[" * 1000,
    "endless": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "tag": b"a: !!python/object/apply:os.system [id]\n",
    "half an interpolation": b"a: ${oc.env\n",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_configuration_is_told_in_one_line(tmp_path, damage):
    (tmp_path / CONFIG).write_bytes(DAMAGED[damage])
    (tmp_path / VERSIONS).write_text(json.dumps({"schema": SCHEMA}))
    with refuses("config.yaml"):
        find_run(tmp_path, "best")
    if damage not in ("cut", "a word"):  # to show, a configuration needs no sections
        with refuses("config.yaml"):
            _ = Run(tmp_path).config.encoder.name


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder.max_tokens", "many", "encoder.max_tokens=many must be a whole number"),
        ("encoder.dim", -3, "encoder.dim=-3 must be 1 or more"),
        ("dataset.path", 5, "dataset.path=5 must be a path"),
        *(
            (section, value, f"it has no section {section}")
            for section in ("encoder", "dataset", "text", "split")
            for value in (None, 3, "x", {}, {"name": "x"})
        ),
    ],
)
def test_a_value_of_another_type_and_a_missing_section_are_told_in_one_line(options, run, key, value, message):
    with refuses(f"config.yaml is damaged: {message}"):
        read_saved(run(changed(options, key, value)))


def test_an_address_beside_an_index_is_not_connected_to(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gedbd.triage.storage.folder_store.MIN_REPORTS", 100)
    rows = [f"{number},crash {number} in window {number % 97}\n" for number in range(100)]
    (tmp_path / "bugs.csv").write_text("id,title\n" + "".join(rows))
    columns = dict.fromkeys(("description", "duplicate", "created_at"), "null") | {"id": "id", "title": "title"}
    folder = tmp_path / "index"
    words = [f"dataset.path={tmp_path / 'bugs.csv'}", f"out={folder}", "encoder=tiny"]
    words += [f"dataset.columns.{name}={value}" for name, value in columns.items()]
    call(gedbd.commands.index, *words)
    (cache,) = folder.glob(f"{CACHE}*")
    with closing(sqlite3.connect(folder / FILE)) as file:
        ((identity,),) = file.execute("SELECT token FROM identity")
        ((model,),) = file.execute("SELECT value FROM about WHERE name = 'model'")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"redis://127.0.0.1:{listener.getsockname()[1]}/bugs"
        sent = {"address": address, "identity": identity, "model": model, "change": int(cache.stem.split("-")[1])}
        (folder / "server.json").write_text(json.dumps(sent))
        call(gedbd.commands.search, f"index={folder}", "crash 12 in window 12")
        index = open_index(folder, str(tmp_path / "cache"))
        with TestClient(create_app(index), base_url="http://localhost") as client:
            assert client.post("/api/search", json={"title": "crash 5 in window 5"}).json()["matches"]
            assert client.post("/api/reports", json={"issue_id": "new", "title": "another crash"}).status_code == 200
        call(gedbd.commands.index, *words)
        assert "0 added, 0 updated, 100 unchanged, 1 deleted" in capsys.readouterr().out
        for option in (f"store={address}", "store=local"):
            with refuses("store", SystemExit):
                call(gedbd.commands.index, *words, option)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has connected
            listener.accept()


def without_interpolations(value: Any) -> Any:
    """Options that are not resolved hold interpolations; what they name must be allowed."""
    if isinstance(value, dict):
        return {name: without_interpolations(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_interpolations(inner) for inner in value]
    return None if isinstance(value, str) and "${" in value else value


@pytest.mark.parametrize("command", ["train", "baseline", "backtest"])
def test_every_choice_of_conf_may_be_saved_and_read(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    checked = 0
    choices = composed(command, return_hydra_config=True).hydra.runtime.choices
    for file in Path(CONF_DIR).glob("*/*.yaml"):
        if file.parent.name in set(choices) - {"experiment", "dataset"}:
            cfg = composed(command, f"{file.parent.name}={file.stem}", "dataset=demo")
            check_options(without_interpolations(OmegaConf.to_container(cfg, resolve=False)), "conf")
            checked += 1
    assert checked > 10
