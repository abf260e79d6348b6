"""Adapters of several trackers that a file lists: the chosen one is added to its base, and its trackers are known."""

import json
from contextlib import closing

import pandas as pd
import pytest
import torch
from adapter_files import write_adapters
from omegaconf import OmegaConf
from small_models import save_small_model, small_model

from gedbd.encoders.adapter_list import AdapterList
from gedbd.encoders.adapters import add_adapters
from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.io.checksums import checksum
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.integration

LAYER = "encoder.layer.0.output.dense"


def reports(name: str, first: int, last: int) -> pd.DataFrame:
    """Reports of a tracker."""
    rows = [{"id": str(number), "title": f"{name} {number}"} for number in range(first, last)]
    return pd.DataFrame(rows)


@pytest.fixture
def made(tmp_path):
    """The folder of a base, the file that lists its adapters, its checksum, and the weights of each adapter."""
    base = save_small_model(tmp_path / "base", "bert")
    adapters = {}
    for seed, name in enumerate(("all", "without_ant")):
        backbone = small_model("bert")[0]
        add_adapters(backbone, 2)
        torch.manual_seed(seed)
        adapters[name] = {key: torch.randn_like(value) for key, value in backbone.state_dict().items() if "lora" in key}
    trackers = {"ant": [reports("ant", 0, 300), reports("ants", 0, 300)], "bee": [reports("bee", 0, 300)]}
    trackers["ant_2"] = [reports("crow", 0, 9)]
    digest = write_adapters(tmp_path / "made", checksum(base / "model.safetensors"), adapters, trackers)
    return base, tmp_path / "made" / "adapters.json", digest, adapters


def test_the_adapter_without_a_tracker_is_added_to_the_base(made):
    base, listed, digest, adapters = made
    plain = small_model("bert")[0].state_dict()
    for without, name in ((None, "all"), ("ant", "without_ant")):
        options = {"adapter": str(listed), "adapter_sha256": digest, "without": without}
        found = load_encoder("bugs", str(base), "mean", 8, 24, **options).model.backbone.state_dict()
        down, up = (adapters[name][f"{LAYER}.lora_{side}"].half().float() for side in "AB")
        torch.testing.assert_close(found[f"{LAYER}.weight"], plain[f"{LAYER}.weight"] + 2 * up @ down)
        assert torch.equal(found[f"{LAYER}.bias"], plain[f"{LAYER}.bias"])


def damage(path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def edit(listed, name, value) -> None:
    listed.write_text(json.dumps(json.loads(listed.read_text()) | {name: value}))


MISTAKES = [
    (lambda listed: None, {"without": "wasp"}, "encoder.without=wasp: no adapter leaves it out; choose null, ant$"),
    (lambda listed: None, {"without": "bee"}, "encoder.without=bee: no adapter leaves it out; choose null, ant$"),
    (lambda listed: None, {"adapter": None, "without": "ant"}, "encoder.without=ant .* encoder=bugs has none"),
    (lambda listed: None, {"adapter": "none.json"}, "none.json: no such file; set encoder.adapter= to an existing"),
    (lambda listed: None, {"adapter_sha256": "ab"}, "adapters.json has SHA-256 .* instead of ab: it is of another ver"),
    (lambda listed: edit(listed, "base", "ab"), {}, "adapters.json was trained for other weights than encoder.model="),
    (lambda listed: damage(listed.with_name("all.safetensors")), {}, "all.safetensors is not the adapter that adapter"),
    (lambda listed: listed.with_name("all.safetensors").unlink(), {}, "all.safetensors is not the adapter that adapt"),
    (lambda listed: listed.write_text("{}"), {}, "adapters.json is damaged: it has no 'base'"),
]


@pytest.mark.parametrize(("change", "options", "message"), MISTAKES)
def test_mistakes_are_told_in_one_line(made, change, options, message):
    base, listed, _, _ = made
    change(listed)
    with pytest.raises(ValueError, match=rf"^[^\n]*{message}[^\n]*$"):
        load_encoder("bugs", str(base), "mean", 8, 24, **({"adapter": str(listed)} | options))


def test_a_part_of_a_tracker_is_recognised_and_another_tracker_is_not(made):
    adapters = AdapterList.read(str(made[1]))
    seen = "the encoder was trained on the duplicates of this tracker, ant, so figures are too good:"
    for part in (reports("ant", 0, 150), reports("ant", 240, 600), reports("ants", 100, 200)):
        assert adapters.notice(part, None) == f"{seen} use encoder.without=ant"
        assert adapters.notice(part, "ant") is None
    assert "tracker, bee, so figures are too good: no adapter leaves it out" in adapters.notice(
        reports("bee", 0, 99), "ant"
    )
    assert adapters.notice(reports("wasp", 0, 300), None) is None
    assert adapters.notice(reports("ant", 300, 600), None) is None


@pytest.fixture
def options(made, tmp_path):
    """The options of a small export of ``ant``, and of the base."""
    rows = reports("ant", 0, 60).rename(columns={"id": "Issue_id", "title": "Title"})
    rows["Description"] = "It crashes."
    rows["Created_time"] = pd.date_range("2024-01-01", periods=60).astype(str)
    rows["Duplicated_issue"] = [str(number - 1) if number % 2 else "" for number in range(60)]
    rows.to_csv(tmp_path / "bugs.csv", index=False)
    return ["dataset.path=bugs.csv", f"encoder.model={made[0]}"]


def test_a_command_says_so_only_if_it_reads_vectors(made, options, run_command):
    options += [f"encoder.adapter={made[1]}", "encoder.adapter_sha256=null", "hydra.run.dir=run"]
    line = ": the encoder was trained on the duplicates of this tracker, ant"
    assert line not in run_command("baseline", "name=bm25", *options)
    assert run_command("baseline", "name=frozen", *options).count(line) == 1
    assert line not in run_command("baseline", "name=frozen", "encoder.without=ant", *options)


def test_an_index_of_the_former_default_keeps_its_encoder(made, options, tmp_path, run_command, monkeypatch, caplog):
    run_command("index", "out=index", "encoder=minilm", *options)
    options += [f"encoder.adapter={made[1]}", "encoder.adapter_sha256=null"]
    with closing(IndexStore(tmp_path / "index" / FILE)) as store:
        encoder = json.loads(store.about()["settings"])["encoder"]
    (tmp_path / "encoder").mkdir()
    OmegaConf.save(encoder | {"adapter": str(made[1])}, tmp_path / "encoder" / "bug_minilm.yaml")
    monkeypatch.setattr("gedbd.configuration.encoder_options.CONF_DIR", str(tmp_path))
    line = "its encoder is minilm, the former default; gedbd index with replace=true encodes its reports again"
    seen = "the encoder was trained on the duplicates of this tracker, ant"
    assert "0 added, 0 updated, 60 unchanged" in run_command("index", "out=index", *options)
    assert seen not in caplog.text
    assert caplog.text.count(line) == 1
    run_command("search", "index=index", "ant")
    assert caplog.text.count(line) == 2
    assert "60 added" in run_command("index", "out=index", *options, "replace=true")
    assert seen in caplog.text
    run_command("search", "index=index", "ant")
    assert "60 unchanged" in run_command("index", "out=index", *options)
    assert caplog.text.count(line) == 2
