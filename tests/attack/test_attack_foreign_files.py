"""A run folder, a backtest or an index of somebody else runs no code, reads no variable and calls nobody."""

import json
import shutil
import socket
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from optuna import create_study
from small_tracker import MATCHING

import gedbd.commands.index
import gedbd.commands.search
from gedbd.configuration.allowed_targets import VARIABLE, check_options, named_targets, read_settings
from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.saved_options import CONFIG, SCHEMA, VERSIONS, read_saved, saved_options
from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.evaluation.run_folders import MATCHING as MATCHING_FILE
from gedbd.evaluation.run_folders import Run
from gedbd.experiments.callbacks import EpochPruning
from gedbd.experiments.checkpoint import WholeCheckpointIO, find_run, save_run
from gedbd.experiments.run_options import resumed_options
from gedbd.experiments.sweeps.optuna_sweeper import STUDY
from gedbd.experiments.tracking.runs import read_stored
from gedbd.service.app import create_app
from gedbd.tasks.duplicates.reproduction.sensitivity_table import find_jobs
from gedbd.triage.index_building import find_backtest
from gedbd.triage.storage.cache_files import NAME
from gedbd.triage.storage.index_store import FILE
from gedbd.triage.storage.stored_model import model_key
from gedbd.triage.stored_index import open_index


class TakenError(AssertionError):
    """Code from a file has run."""


def take(*arguments: object, **options: object) -> None:
    raise TakenError


EVIL = f"{__name__}.take"
HOSTILE: list[tuple[str, Any]] = [
    ("encoder._target_", "os.system"),
    ("encoder._target_", EVIL),
    ("encoder._target_", ["os.system"]),
    ("encoder._target_", None),
    ("encoder.model", {"_target_": EVIL}),
    ("encoder.fine_tuning", {"a": [{"b": {"_target_": EVIL, "_args_": ["id"], "_partial_": True}}]}),
    ("text.tokens", [{"_target_": EVIL}]),
    ("text._target_", "gedbd.triage.stored_index.open_index"),
    ("text._target_", "gedbd.encoders.loaded_encoder.Path"),
    ("backend._target_", "gedbd.corpora.readers.csv_export.read_csv"),
    ("backend._target_", "hydra.utils.instantiate"),
    ("backend._target_", "gedbd.configuration.allowed_targets.os.system"),
    ("text.captions", "pkg://gedbd.triage.stored_index/demo.csv"),
]
RAY = {
    "_target_": "gedbd.encoders.backends.ray.Ray",
    "address": "evil.example:6379",
    "workers": 2,
    "cpus": 1,
    "gpus": 0,
}
INTERPOLATIONS = [
    "${oc.env:HOME}",
    "${oc.decode:'[1]'}",
    "a ${oc.env:HOME}",
    "${encoder.name}",
    "${started:}",
    "\\${x}",
]


@pytest.fixture(scope="module")
def options():
    """The options of a small run, as its folder holds them."""
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("train", ["encoder=tiny", "text=fields", "graph=dense_bert", "trainer=fsdp"])
    cfg.trainer.precision, cfg.trainer.devices, cfg.trainer.num_nodes = "32-true", 1, 1
    return saved_options(cfg)


@pytest.fixture
def run(tmp_path):
    """Leaves a run folder with some options."""

    def leave(options: dict[str, Any]) -> Path:
        (tmp_path / CONFIG).write_text(json.dumps(options))
        (tmp_path / VERSIONS).write_text(json.dumps({"schema": SCHEMA}))
        WholeCheckpointIO().save_checkpoint({"state_dict": {}}, tmp_path / "checkpoints" / "best.ckpt")
        WholeCheckpointIO().save_checkpoint({"state_dict": {}}, tmp_path / "checkpoints" / "last.ckpt")
        return tmp_path

    return leave


def changed(options: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    section, name = key.split(".")
    return options | {section: options[section] | {name: value}}


def test_what_gedbd_has_written_itself_is_read(options, run):
    assert read_saved(run(options)).encoder.name == "tiny"
    check_options(options, "config.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "baseline", "backtest"])
def test_every_choice_of_conf_may_be_saved_and_read(command, tmp_path, monkeypatch, run):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    groups = [folder.name for folder in Path(CONF_DIR).iterdir() if folder.is_dir()]
    checked = 0
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        taken = [name for name in compose(command, return_hydra_config=True).hydra.runtime.choices if name in groups]
        for group in taken:
            if group in ("experiment", "dataset"):
                continue
            for file in (Path(CONF_DIR) / group).glob("*.yaml"):
                cfg = compose(command, [f"{group}={file.stem}", "dataset=demo"])
                check_targets_only(OmegaConf.to_container(cfg, resolve=False))
                checked += 1
    assert checked > 10


def check_targets_only(options: Any) -> None:
    """Options that are not resolved hold interpolations; what they name must be allowed."""
    check_options({name: without_interpolations(value) for name, value in options.items()}, "conf")


def without_interpolations(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_interpolations(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_interpolations(inner) for inner in value]
    return None if isinstance(value, str) and "${" in value else value


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_a_run_that_names_other_code_is_refused(options, run, key, value):
    folder = run(changed(options, key, value))
    with pytest.raises(ValueError, match=r"config.yaml: .*=.* is not run, because a file may only name") as refused:
        find_run(folder, "best")
    assert "\n" not in str(refused.value)


def test_a_run_that_names_a_package_of_its_own_does_not_import_it(options, run, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('taken')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = run(changed(options, "dataset.path", "pkg://evil/reports.csv"))
    with pytest.raises(ValueError, match=r"config.yaml: dataset.path=pkg://evil/reports.csv is not run"):
        find_run(folder, "best")
    assert read_saved(run(changed(options, "dataset.path", "pkg://gedbd.corpora/demo.csv")))


@pytest.mark.parametrize("section", ["../encoder", "/tmp", "train.yaml", "none.yaml", "a\0b", "", "other"])
def test_a_section_that_conf_does_not_have_names_nothing(section):
    with pytest.raises(ValueError, match=r"_target_=gedbd.encoders.loaded_encoder.load_encoder is not run"):
        check_options({section: {"_target_": "gedbd.encoders.loaded_encoder.load_encoder"}}, "config.yaml")


@pytest.mark.parametrize("text", INTERPOLATIONS)
def test_a_run_with_an_interpolation_is_refused_and_shown_nowhere(options, run, monkeypatch, text):
    folder = run(changed(options, "encoder.name", text))
    for read in (partial(find_run, folder, "best"), lambda: Run(folder).config):
        with pytest.raises(ValueError, match=r"config.yaml(:| is damaged: ).*(holds an interpolation|Error)"):
            read()


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_an_index_that_names_other_code_is_refused(options, key, value):
    settings = changed({name: options[name] for name in ("encoder", "text", "backend")}, key, value)
    with pytest.raises(ValueError, match=r"^index=other: .*is not run"):
        read_settings(json.dumps(settings), "index=other", "cache")


def test_the_cache_folder_and_the_cluster_of_an_index_are_not_used(options, capsys):
    own = {"encoder": options["encoder"], "text": options["text"]}
    openvino = {
        "_target_": "gedbd.encoders.backends.openvino.OpenVino",
        "precision": "float32",
        "cache_dir": "${cache_dir}",
    }
    for place in ("${cache_dir}", "/srv/of/somebody/else", "${oc.env:HOME}"):
        settings = own | {"backend": openvino | {"cache_dir": place}}
        assert read_settings(json.dumps(settings), "index=other", "mine").backend.cache_dir == "mine"
    assert read_settings(json.dumps(own | {"backend": RAY}), "index=other", "mine").backend.address is None
    assert "index=other: backend.address=evil.example:6379 is ignored" in capsys.readouterr().out


def test_an_endpoint_that_a_run_names_gets_no_reports(options, run, capsys):
    endpoint = {"_target_": "gedbd.retrieval.reports.llm_check.load_llm_check", "base_url": "https://evil.example/v1"}
    boosted = {"_target_": "gedbd.retrieval.reports.report_scorer.LearntReports", "llm": endpoint | {"model": "small"}}
    folder = run(options | {"llm": endpoint, "baselines": {"boosted": boosted}, "also": {"base_url": None}})
    cfg, _ = find_run(folder, "best")
    assert cfg.llm.base_url is cfg.baselines.boosted.llm.base_url is None
    assert cfg.baselines.boosted.llm.model == "small"
    assert "evil.example" not in OmegaConf.to_yaml(cfg)
    said = capsys.readouterr().out
    for section in ("llm", "baselines"):
        assert f"base_url=https://evil.example/v1 of {section} is ignored because it comes from a file" in said
    assert "also" not in said


def test_a_backtest_names_no_cluster_and_no_endpoint(options, run, capsys):
    endpoint = {"_target_": "gedbd.retrieval.reports.llm_check.load_llm_check", "base_url": "https://evil.example/v1"}
    folder = run(options | {"backend": RAY, "run": None, "llm": endpoint})
    (folder / MATCHING_FILE).write_text(MATCHING.as_json())
    cfg, _, _ = find_backtest(folder)
    assert cfg.backend.address is cfg.llm.base_url is None
    assert "backend.address=evil.example:6379 is ignored because it comes from a file" in capsys.readouterr().out


def test_caches_are_written_where_this_user_has_them(options, run, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", "/mine")
    backend = {"_target_": "gedbd.encoders.backends.openvino.OpenVino", "precision": "int8", "cache_dir": "/theirs"}
    encoder = options["encoder"] | {"cache_dir": "/theirs"}
    folder = run(
        options | {"backend": backend, "encoder": encoder, "cache_dir": "/theirs", "baselines": {"a": encoder}}
    )
    for given, expected in ((None, "/mine"), ("/asked", "/asked")):
        cfg, _ = find_run(folder, "best", given)
        assert "/theirs" not in OmegaConf.to_yaml(cfg)
        assert cfg.cache_dir == cfg.backend.cache_dir == cfg.encoder.cache_dir == expected
    words = [f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}", "cache_dir=/asked"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        assert "/theirs" not in OmegaConf.to_yaml(
            resumed_options(compose("train", words), words, {}, partial(compose, "train"))
        )
    settings = json.dumps({"encoder": encoder, "text": options["text"], "backend": backend})
    assert "/theirs" not in OmegaConf.to_yaml(read_settings(settings, "index=other", "/asked"))


def test_a_model_on_the_hub_that_a_file_names_is_not_downloaded(options, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        bert = OmegaConf.to_container(compose("train", ["encoder=bert"]).encoder)
        evil = options | {"encoder": bert | {"model": "evil/model"}}
        words = [f"ckpt_path={tmp_path / 'checkpoints' / 'last.ckpt'}"]
        again = ["encoder=bert", "encoder.model=evil/model"]
        folder = run(evil)
        reads = [
            partial(find_run, folder, "best"),
            lambda: resumed_options(compose("train", words), words, {}, partial(compose, "train")),
            lambda: read_settings(json.dumps({name: evil[name] for name in ("encoder", "text", "backend")}), "x", "c"),
        ]
        for read in reads:
            with pytest.raises(ValueError, match=r"encoder.model=evil/model is not downloaded.*hf download evil/model"):
                read()
        given = resumed_options(
            compose("train", words + again), words + again, {"encoder": ""}, partial(compose, "train")
        )
        assert given.encoder.model == "evil/model"
        with pytest.raises(ValueError, match=r"baselines.a.encoder.model=evil is not downloaded"):
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


def test_arguments_without_names_are_refused(options, run):
    hidden = {"_target_": "gedbd.encoders.loaded_encoder.load_encoder", "_args_": ["a", "evil/model", "mean", 8, 8]}
    with pytest.raises(ValueError, match=r"config.yaml: encoder._args_ is not run"):
        read_saved(run(options | {"encoder": hidden}))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", "[" * 100_000, '{"encoder": {}}', '{"encoder": 1, "text": {}}'),
        *(f'{{"encoder": {"[" * depth}{"]" * depth}}}' for depth in (100, 450, 900)),
    ],
)
def test_damaged_settings_of_an_index_are_told_in_one_line(text):
    with pytest.raises(ValueError, match=r"^index=other") as refused:
        read_settings(text, "index=other", "cache")
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_an_index_with_other_settings_does_not_open(stored_index, tmp_path):
    shutil.copytree(stored_index.folder, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / FILE)) as file, file:
        about = dict(file.execute("SELECT name, value FROM about"))
        weights = b"".join(part for (part,) in file.execute("SELECT data FROM weights ORDER BY part"))
        evil = json.dumps(changed(json.loads(about["settings"]), "encoder._target_", EVIL))
        key = model_key(evil, about["matching"], weights)
        file.executemany("UPDATE about SET value = ? WHERE name = ?", [(evil, "settings"), (key, "model")])
    with pytest.raises(ValueError, match=f"encoder._target_={EVIL} is not run"):
        open_index(tmp_path / "copy", str(tmp_path))


def test_the_command_line_may_name_own_code_and_a_run_with_it_goes_on(options, run, monkeypatch):
    folder = run(options | {"loss": {"_target_": EVIL}})
    with pytest.raises(ValueError, match=f"if you trust it, set {VARIABLE}={EVIL}"):
        read_saved(folder)
    assert read_saved(folder, also=named_targets({"loss": {"_target_": EVIL}})).loss._target_ == EVIL
    monkeypatch.setenv(VARIABLE, f"other.name,{EVIL}")
    assert read_saved(folder).loss._target_ == EVIL


def test_a_run_to_resume_may_not_name_other_code(options, run):
    folder = run(options | {"logger": {"_target_": EVIL}})
    words = [f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}", "encoder=tiny"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("train", words)
        with pytest.raises(ValueError, match=r"logger._target_=.* is not run"):
            resumed_options(cfg, words, {"encoder": "tiny"}, partial(compose, "train"))


def test_a_run_to_resume_joins_no_cluster_by_itself(options, run):
    folder = run(options | {"backend": RAY})
    first = [f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        for more, refused in (([], True), (["backend=ray", "backend.address=evil.example:6379"], False)):
            cfg, words = compose("train", [*first, *more]), [*first, *more]
            choices = {"backend": "torch"}
            if refused:
                with pytest.raises(
                    ValueError, match=r"to use it again, set backend=ray backend.address=evil.example:6379"
                ):
                    resumed_options(cfg, words, choices, partial(compose, "train"))
            else:
                resumed = resumed_options(cfg, words, choices, partial(compose, "train"))
                assert resumed.backend.address == "evil.example:6379"


def test_a_run_to_resume_sends_metrics_only_if_the_command_line_says_so(options, run):
    logger = {"_target_": "pytorch_lightning.loggers.WandbLogger", "project": "theirs", "entity": "evil"}
    folder = run(options | {"logger": logger, "encoder": options["encoder"] | {"base_url": "https://evil.example"}})
    first = [f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}"]

    def resume(*more: str) -> Any:
        words = [*first, *more]
        return resumed_options(compose("train", words), words, {"logger": ""}, partial(compose, "train"))

    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        with pytest.raises(
            ValueError, match=r"its run used https://evil.example; to use it again, set encoder.base_url"
        ):
            resume()
        run(options | {"logger": logger})
        with pytest.raises(ValueError, match=r"to send them again, set logger=wandb, otherwise logger=csv"):
            resume()
        assert not resume("logger=csv").logger
        own = resume("logger=wandb", "logger.project=mine").logger
        assert (own.project, own.entity) == ("mine", None)


@pytest.mark.parametrize("value", [{"_target_": EVIL}, [{"_target_": EVIL}], 3])
def test_a_stored_run_of_wandb_is_text(tmp_path, value):
    (tmp_path / "wandb.json").write_text(json.dumps({"id": "a", "name": value, "group": None}))
    with pytest.raises(ValueError, match=r"wandb.json is damaged: name is not text"):
        read_stored(tmp_path / "wandb.json")
    (tmp_path / "wandb.json").write_text(json.dumps({"id": "${oc.env:HOME}"}))
    with pytest.raises(ValueError, match=r"wandb.json: id holds an interpolation"):
        read_stored(tmp_path / "wandb.json")
    (tmp_path / "wandb.json").write_text(json.dumps({"id": "a", "experiment": value}))
    assert read_stored(tmp_path / "wandb.json") == {"id": "a", "name": None, "group": None}


@pytest.mark.parametrize(
    "pruner",
    [{"_target_": "optuna.pruners._percentile.np.load", "file": "evil.npy", "allow_pickle": True}, {"_target_": EVIL}],
)
def test_a_study_names_pruners_only(tmp_path, pruner):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = create_study(storage=storage, study_name=STUDY)
    study.set_user_attr("pruner", {"_target_": "optuna.pruners.PatientPruner", "wrapped_pruner": pruner})
    with pytest.raises(ValueError, match=r"study.db: .* is not a pruner of Optuna"):
        EpochPruning(0, storage)._should_prune(0, 0.5)


def test_options_of_a_sweep_are_shown_as_they_were_typed(tmp_path):
    (tmp_path / "0" / ".hydra").mkdir(parents=True)
    (tmp_path / "0" / ".hydra" / "overrides.yaml").write_text("- seed=${oc.env:HOME}\n")
    (job,) = find_jobs(tmp_path, [Run(tmp_path / "0")])
    assert job.overrides == {"seed": "${oc.env:HOME}"}


def test_a_package_of_weights_is_not_imported_to_find_it(tmp_path, monkeypatch):
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("raise SystemExit('taken')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"encoder.package=evil.sub is not the name of a package"):
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
    for read in (partial(find_run, tmp_path, "best"), lambda: Run(tmp_path).config.encoder.name):
        if damage in ("cut", "a word") and read.__class__ is not partial:
            continue  # to show, a configuration needs no sections
        with pytest.raises(ValueError, match=r"config.yaml") as refused:
            read()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder.max_tokens", "many", "encoder.max_tokens=many must be a whole number"),
        ("encoder.dim", -3, "encoder.dim=-3 must be 1 or more"),
        ("dataset.path", 5, "dataset.path=5 must be a path"),
    ],
)
def test_a_value_of_another_type_is_told_in_one_line(options, run, key, value, message):
    with pytest.raises(ValueError, match=f"config.yaml is damaged: {message}"):
        read_saved(run(changed(options, key, value)))


@pytest.mark.parametrize("section", ["encoder", "dataset", "text", "split"])
@pytest.mark.parametrize("value", [None, 3, "x", {}, {"name": "x"}])
def test_a_missing_section_is_told_in_one_line(options, run, section, value):
    with pytest.raises(ValueError, match=f"config.yaml is damaged: it has no section {section}"):
        read_saved(run(options | {section: value}))


def test_save_run_leaves_what_read_saved_reads(tmp_path, make_corpus, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("baseline", ["name=fusion", "encoder=tiny"])
    save_run(tmp_path / "run", cfg, make_corpus([0, 0, 1]))
    assert read_saved(tmp_path / "run").name == "fusion"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [CONFIG, "versions.json"]


@pytest.fixture
def large_index(tmp_path, monkeypatch):
    """An index of 10,000 reports with the files beside it, and the options that build it."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    rows = [f"{number},crash {number} in window {number % 97}\n" for number in range(10_000)]
    (tmp_path / "bugs.csv").write_text("id,title\n" + "".join(rows))
    columns = dict.fromkeys(("description", "duplicate", "created_at"), "null") | {"id": "id", "title": "title"}
    options = [f"dataset.path={tmp_path / 'bugs.csv'}", f"out={tmp_path / 'index'}", "encoder=tiny"]
    options += [f"dataset.columns.{name}={value}" for name, value in columns.items()]
    monkeypatch.setattr(sys, "argv", ["gedbd", *options])
    gedbd.commands.index.main()
    return tmp_path / "index", options


def test_an_address_beside_an_index_is_not_connected_to(large_index, monkeypatch, capsys):
    folder, options = large_index
    (cache,) = folder.glob(f"{NAME}*")
    with closing(sqlite3.connect(folder / FILE)) as file:
        ((identity,),) = file.execute("SELECT token FROM identity")
        ((model,),) = file.execute("SELECT value FROM about WHERE name = 'model'")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"qdrant://127.0.0.1:{listener.getsockname()[1]}/bugs"
        sent = {"address": address, "identity": identity, "model": model, "change": int(cache.name.split("-")[1])}
        (folder / "server.json").write_text(json.dumps(sent))
        monkeypatch.setattr(sys, "argv", ["gedbd", f"index={folder}", "crash 12 in window 3"])
        gedbd.commands.search.main()
        index = open_index(folder, str(folder.parent / "cache"))
        with TestClient(create_app(index), base_url="http://localhost") as client:
            assert client.post("/api/search", json={"title": "crash 5 in window 5"}).json()["matches"]
            assert client.post("/api/reports", json={"issue_id": "new", "title": "another crash"}).status_code == 200
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        gedbd.commands.index.main()
        assert "0 added, 0 updated, 10,000 unchanged, 1 deleted" in capsys.readouterr().out
        for option in (f"store={address}", "store=local"):
            monkeypatch.setattr(sys, "argv", ["gedbd", *options, option])
            with pytest.raises(SystemExit, match="store") as refused:
                gedbd.commands.index.main()
            assert "\n" not in str(refused.value)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has connected
            listener.accept()
