"""Real small trainings through the command."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
)

import gedbd.commands.evaluate
import gedbd.commands.export
import gedbd.train
from gedbd.experiments.optimizers import adamw, constant
from gedbd.localization.code_encoder.pretraining_system import PretrainingSystem

pytestmark = pytest.mark.integration

TINY = [
    "task=pretraining",
    "encoder.layers=1",
    "encoder.hidden=16",
    "encoder.heads=2",
    "encoder.intermediate=16",
    "encoder.vocab_size=400",
    "split.val=0.2",
    "batch_size=8",
    "optimizer.lr=3e-3",
    "scheduler=constant",  # cosine ends with the last epoch, so that a shorter run has other rates
    "scheduler.warmup_steps=2",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
]
TIMES = ["train/seconds", "train/reports_per_second"]


@pytest.fixture(scope="module")
def train(command, methods_file, tmp_path_factory):
    """Trains in a folder of its own, or in a given one."""

    def through(*options: str, folder: Path | None = None, first: Sequence[str] = TINY) -> Path:
        folder = folder or tmp_path_factory.mktemp("pretraining")
        words = [*first, f"dataset.path={methods_file}", "hydra.run.dir=run", *options]
        return command(gedbd.train, folder, *words) / "run"

    return through


@pytest.fixture(scope="module")
def whole(train) -> Path:
    """Two epochs, uninterrupted; not to be changed."""
    return train("trainer.max_epochs=2")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    assert isinstance(state, dict)
    return state


def test_run_folder_holds_what_is_documented(whole):
    names = ("config.yaml", "versions.json", "metrics.csv", "results.csv", "objectives.csv", "report.html")
    assert all((whole / name).is_file() for name in (*names, "report.md", "figures/objectives.png"))
    assert "objectives are predicted better" in json.loads((whole / "own_page.json").read_text())["summary"]
    results = pd.read_csv(whole / "results.csv")
    assert results["method"].tolist() == ["semantic_codebert"]
    for name in ("mlm", "alignment", "edge", "type", "role"):
        assert 0 <= results[f"{name}_accuracy"][0] <= 1
        assert 0 <= results[f"{name}_base_rate"][0] <= 1
    epochs = pd.read_csv(whole / "metrics.csv")
    assert len(epochs) == 2
    assert epochs["val/loss"][1] < epochs["val/loss"][0]
    means = epochs[[f"val/{name}_accuracy" for name in ("mlm", "alignment", "edge", "type", "role")]].mean(axis=1)
    pd.testing.assert_series_equal(epochs["val/mean_accuracy"], means, check_names=False, rtol=1e-5)


def test_the_encoder_is_a_plain_folder_with_the_best_weights(whole):
    tokenizer = AutoTokenizer.from_pretrained(whole / "encoder")
    backbone = AutoModel.from_pretrained(whole / "encoder")
    assert len(tokenizer) == backbone.get_input_embeddings().weight.shape[0]
    assert "[TYPE:INTEGER]" in tokenizer.get_vocab()
    best = torch.load(whole / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    for name, value in backbone.state_dict().items():
        if not name.startswith("pooler"):
            assert torch.equal(best[f"encoder.backbone.{name}"], value), name
    settings = json.loads((whole / "encoder" / "code_inputs.json").read_text())
    assert settings["limits"] == {"comment_tokens": 64, "code_tokens": 256, "nodes": 80}
    rules = {"begin_exit": "left", "else_expressions": "conditions"}
    assert settings["parts"] == {"nodes": True, "types": True, "roles": True, "edges": "flow"} | rules


@pytest.mark.slow  # two more trainings
def test_a_halted_run_goes_on_as_if_it_had_not_stopped(train, whole):
    halted = train("trainer.max_epochs=1")
    train("trainer.max_epochs=2", "ckpt_path=run/checkpoints/last.ckpt", folder=halted.parent)
    expected, found = (pd.read_csv(run / "metrics.csv").drop(columns=TIMES) for run in (whole, halted))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    for name, value in weights(whole).items():
        assert torch.equal(weights(halted)[name], value), name


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("module", "out"), [(gedbd.commands.evaluate, ()), (gedbd.commands.export, ("out=exported",))])
def test_commands_for_reports_refuse_the_run(command, whole, module, out):
    with pytest.raises(SystemExit, match=f"use its weights with encoder=codebert encoder.model={whole}/encoder"):
        command(module, whole, f"run={whole}", *out)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("task.limits.code_tokens=600", "but the encoder has 512 positions"),
        ("monitor=val/f1", "monitor=val/f1 is not logged: choose one of val/loss"),
        ("task.reduction=max", "task.reduction=max is unknown: choose mean or sum"),
        ("dataset=demo dataset.path=pkg://gedbd.corpora/demo.csv", "holds no methods: choose dataset=java_sources"),
    ],
)
def test_mistakes_are_told_in_one_line(train, tmp_path, option, message):
    with pytest.raises(SystemExit, match=message):
        train(*option.split(), folder=tmp_path)


@pytest.mark.slow  # two trainings
def test_two_seeds_without_a_graph(train, tmp_path):
    run = train("trainer.max_epochs=1", "seeds=2", "task.parts.nodes=false", folder=tmp_path)
    seeds = pd.read_csv(run / "seeds.csv")
    assert len(seeds) == 2
    assert seeds["val_value"].between(0, 1).all()
    assert "alignment_accuracy" not in seeds


@pytest.mark.slow  # two trainings
def test_training_starts_from_given_weights_and_adds_no_token_twice(train, tmp_path):
    others = [word for word in TINY if not word.startswith("encoder.")]
    first = train("encoder=tiny", "trainer.max_epochs=1", folder=tmp_path, first=others) / "encoder"
    given = ("encoder=codebert", f"encoder.model={first}", "trainer.max_epochs=1", "hydra.run.dir=again")
    train(*given, folder=tmp_path, first=others)
    vocabularies = [AutoTokenizer.from_pretrained(one).get_vocab() for one in (first, tmp_path / "again" / "encoder")]
    assert vocabularies[0] == vocabularies[1]


def test_pretrained_weights_are_trained_with_dropout():
    backbone = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8))
    make_optimizer = partial(adamw, lr=1.0, head_lr=1.0, weight_decay=0.0, fused=False)
    system = PretrainingSystem(backbone.eval(), {"type": 1.0}, make_optimizer, partial(constant, warmup_steps=1), 0)
    assert all(module.training for module in system.modules())


@pytest.mark.slow  # two processes
@pytest.mark.no_cover
def test_two_processes_agree_with_one(train, methods_file, tmp_path):
    # Four of eight files train: 20 methods, which two processes share without a rest.
    same = ["encoder.dropout=0", "trainer.max_epochs=2", "split.val=0.25", "split.test=0.25"]
    one = train(*same)
    environment = os.environ | {"PYTHONPATH": str(Path(gedbd.train.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    words = [*TINY, f"dataset.path={methods_file}", *same, "batch_size=4", "trainer=ddp", "trainer.devices=2"]
    words += ["trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "hydra.run.dir=two"]
    command = [sys.executable, "-m", "gedbd.train", *words]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    expected, found = (pd.read_csv(run / "metrics.csv").drop(columns=TIMES) for run in (one, tmp_path / "two"))
    losses = [name for name in expected if "loss" in name]
    pd.testing.assert_frame_equal(found[losses], expected[losses], check_exact=False, rtol=0, atol=1e-4)
    for name, value in weights(one).items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], value, rtol=0, atol=1e-4, msg=name)
