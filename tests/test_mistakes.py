"""Mistakes on the command line: one line, before the long work, and nothing left behind."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from gedbd.__main__ import module_of
from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.option_types import BOUNDS, check_types, check_values, dotted_names


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Runs a command that must end with one line before it begins, and leave nothing behind; gives the line."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def through(name, *options):
        module = import_module(module_of(name))
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        with pytest.raises(SystemExit) as raised:
            module.main()
        told = str(raised.value.code)
        assert told.startswith("error: ")
        assert "\n" not in told
        assert capsys.readouterr().err == ""
        assert list(Path.cwd().iterdir()) == []
        return told.removeprefix("error: ")

    return through


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("train", "trainer.max_epochs=0", "trainer.max_epochs=0 must be 1 or more"),
        ("train", "logger=null", "logger=null is unknown: leave logger= out; without it a run writes only"),
        ("train", "debug=null", "debug=null is unknown: leave debug= out for a whole run. Choose one of fdr, limit,"),
        ("train", "encoder=tiny graph=5", "graph=5 is unknown: choose one of dense, dense_bert, dense_unweighted,"),
        ("train", "graph=gat", "graph=gat is unknown: choose one of dense, dense_bert, dense_unweighted, identifiers,"),
        (
            "index",
            "encoder=org/my-model",
            "encoder=org/my-model is unknown: for a folder, or a model of the hub: encoder=bert encoder.model=org",
        ),
        (
            "train",
            "encoder=tiny encoder.model=my-model",
            "encoder=tiny has no option encoder.model: leave it out, or choose another encoder=",
        ),
        ("train", "seed=${sed}", "seed=${sed}: there is no option sed to take the value from"),
        ("train", "seed=${oc.env:NO_SEED}", "seed=${oc.env:NO_SEED}: the environment variable NO_SEED is not set: set"),
        ("train", "seed=${sed:1}", "seed=${sed:1}: there is no function sed: write an option's name"),
        ("train", "~callbacks", "~callbacks: this command needs callbacks: callbacks=none switches early stopping off"),
        ("train", "~dataset", "~dataset: this command needs dataset: choose another dataset="),
        ("index", "out=i ~seed", "unknown option seed: --help lists all options"),
        ("train", "~seed", "~seed: this command needs seed: leave ~seed out"),
        ("train", "encoder=[tiny,bert]", "encoder=[tiny,bert]: encoder= takes one choice; to run each of several: -m"),
        ("train", "hydra.mode=x", "hydra.mode=x: this value does not fit the option (Invalid value 'x', expected one"),
        ("train", "-m hydra.run.dir=a,b", "hydra.run.dir=a,b: an option of Hydra has one value in all runs: give one"),
        ("train", "seed=range(1,3)", "seed=range(1,3) has several values: add -m to run each of them"),
        ("train", "--cfg job seed=1,2", "seed=1,2 has several values: add -m to run each of them"),
        ("train", "--cfg job nope=1", "unknown option nope: --help lists all options"),
        ("train", "--cfg job --package nope", "--package nope: there is no such section: --cfg job lists them"),
        ("train", "ckpt_path=no.ckpt", "ckpt_path=no.ckpt: no such file"),
        ("train", "trainer.max_epoch=1", "unknown option trainer.max_epoch: did you mean trainer.max_epochs?"),
        (
            "describe",
            "dataset=github dataset.path=a.json dataset.html=true",
            "dataset=github has no option dataset.html: leave it out, or choose another dataset=",
        ),
        ("train", "dataset=githb", "dataset=githb is unknown: did you mean github? Choose one of askubuntu, auto"),
        ("compare", "run=a against=b out=t.md", "out=t.md: the table is written as CSV or LaTeX: choose a name"),
        ("compare", "a b c", "c is one too many: give a value for each of run= and against="),
        ("report", "paths=gone", "gone: no such folder; give a run folder, a sweep, or a folder that contains them"),
        ("compare", "a", "against= is required, for example: gedbd compare run="),
        ("evaluate", "run=[a,b]", "run=['a', 'b'] must be a path"),
        ("describe", "issues.json", "issues.json is no option=value: write dataset.path=issues.json"),
        (
            "describe",
            "dataset.path=/ dataset.columns.id=Issue key",
            "key is no option=value: if it is a part of the value before it, write 'dataset.columns.id=Issue key' in",
        ),
        ("train", "ranking.parts=[val", "ranking.parts=[val cannot be parsed as option=value: close all brackets"),
        ("train", "encoder=tiny ranking.parts=[test] monitor=val/mrr", "monitor=val/mrr is not logged: choose one of"),
        ("train", "optimizer.lr=1,2", "optimizer.lr=1,2 has several values: add -m to run each of them"),
        (
            "baseline",
            "name=bm25 +trainer.max_epochs=2",
            "+trainer: this command does not use the section trainer: leave",
        ),
        ("train", "+traner.max_steps=1", "+traner: this command does not use the section traner: leave it out"),
        ("train", "lambda=0.3", "unknown option lambda: did you mean fusion.lambda_text?"),
        ("train", "-m margin=0.3,0.5", "unknown option margin: did you mean loss.margin?"),
        ("train", "d=10", "unknown option d: did you mean graph.pca_dim?"),
        ("train", "pca=10", "unknown option pca: did you mean graph.pca_dim?"),
        ("train", "model=roberta", "unknown option model: did you mean encoder?"),
        ("train", "epochs=2", "unknown option epochs: did you mean trainer.max_epochs?"),
        ("train", "gpus=2", "unknown option gpus: did you mean trainer.devices?"),
        ("train", "batch=8", "unknown option batch: did you mean batch_size?"),
        ("train", "-m +lr=1e-5,2e-5", "+lr: this command does not use the section lr: did you mean optimizer.lr?"),
        ("describe", "lr=1e-5", "unknown option lr: --help lists all options"),
        ("train", "+encoder=tiny", "+encoder=tiny: this group exists: write encoder=tiny"),
        ("train", "+seed=1", "+seed: this option exists: write seed= without the +"),
        ("train", "-m dataset=demo,githb", "dataset=githb is unknown: did you mean github?"),
        ("search", "query=crash", "index= is required, for example: gedbd search index=folder"),
        ("train", "loss.margin=abc", "loss.margin=abc must be a number"),  # its default follows the encoder
        ("train", "experiment=paper_tables seeds=1,x", "seeds=x must be a whole number"),  # a sweep without -m
        ("serve", "index=i settings.names=here", "settings.names=here must be a list, such as [a, b]"),
    ],
)
def test_an_option_that_does_not_fit_is_told_before_the_command_begins(refuse, command, options, message):
    assert refuse(command, *options.split(" ")).startswith(message)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("caption", "dataset=git out=captions.csv captioner=tiny"),
        ("backtest", "dataset=git encoder=tiny"),
        ("baseline", "dataset=git name=bm25"),
        ("train", "dataset=git task=confirmation encoder=tiny"),
    ],
)
def test_a_history_of_changes_is_refused_before_it_is_read(refuse, command, options):
    told = refuse(command, "dataset.path=/", *options.split(" "))
    assert told.startswith("/: this is a history of changes, but this command needs a table of reports")


DEFAULTS = OmegaConf.create(
    {
        "seed": 0,
        "batch_size": 16,
        "chunk_tokens": None,
        "compile": False,
        "index": "???",
        "run": None,
        "fields": [],
        "ranks": [1, 5],
        "encoder": {"name": "tiny"},
        "optimizer": {"lr": 0.1},
        "pairs": {"negatives_in_evaluation": 5, "seed": "${seed}"},
        "split": {"val_from": 0.6},
        "trainer": {"max_epochs": 3, "gradient_clip_val": 1.0, "devices": 1, "precision": "${auto_precision:}"},
        "webhook": {"timeout_s": 10},
    }
)


def check(option):
    """Checks one value in place of its default."""
    cfg = OmegaConf.merge(DEFAULTS, OmegaConf.from_dotlist([option]))
    check_types(cfg, DEFAULTS)
    check_values(cfg)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("trainer.max_epochs=1.5", "must be a whole number"),
        ("trainer.max_epochs=null", "trainer.max_epochs=null must be a whole number"),
        ("trainer.max_epochs=-2", "must be 1 or more"),
        ("optimizer.lr=-1", "optimizer.lr=-1 must be 0 or more"),
        ("optimizer.lr=.nan", "optimizer.lr=nan must be a number"),
        ("optimizer.lr=", "optimizer.lr=null must be a number"),
        ("optimizer=3", "optimizer=3 must be null, or be given option by option, such as optimizer.lr="),
        ("batch_size=0", "batch_size=0 must be 1 or more"),
        ("chunk_tokens=many", "chunk_tokens=many must be a whole number"),
        ("compile=perhaps", "compile=perhaps must be true or false"),
        ("ranks=10", r"ranks=10 must be a list, such as \[1, 5\]"),
        ("fields=component", r"fields=component must be a list, such as \[a, b\]"),
        ("encoder.name=[a]", r"encoder.name=\['a'\] must be one value"),
        ("pairs.seed=x", "pairs.seed=x must be a whole number"),
        ("seed=${oc.env:NO_SEED}", r"seed=\$\{oc.env:NO_SEED\}: the environment variable NO_SEED is not set"),
        ("seed=${pairs.seed}", "Recursive interpolation"),
        ("index=3", "index=3 must be a path: write ./3 if that is its name"),
        ("run=[a]", r"run=\['a'\] must be a path"),
    ],
)
def test_a_value_of_another_type_is_refused(option, message):
    with pytest.raises(ValueError, match=message):
        check(option)


BAD_NUMBERS = {
    "batches.hard=1.1": "0 or more and at most 1",
    "batches.singletons=1": "0 or more and at most 0.9",
    "connections.keep_alive_s=0.5": "a whole number",
    "cross.max_tokens=7": "8 or more",
    "graph.dropout=1": "0 or more and below 1",
    "labels.fraction=0": "above 0 and at most 1",
    "loss.temperature=0": "above 0",
    "ranking.window_days=.nan": "a number",
    "split.folds=2": "3 or more",
    "split.year=14": "1678 or more and at most 2261",
    "tags.p=0": "0.01 or more and at most 100",
    "task.alpha=-2": "-1 or more and at most 1",
    "task.val_share=1": "above 0 and below 1",
    "top_k=51": "1 or more and at most 50",
}


@pytest.mark.parametrize(("option", "problem"), BAD_NUMBERS.items())
def test_a_number_out_of_bounds_is_refused(option, problem):
    with pytest.raises(ValueError, match=rf"^{option.partition('=')[0]}=\S+ must be {problem}$"):
        check_values(OmegaConf.from_dotlist([option]))


def test_every_option_with_bounds_exists():
    files = [OmegaConf.to_container(OmegaConf.load(path)) for path in Path(CONF_DIR).rglob("*.yaml")]
    known = {name for file in files for name in dotted_names(file)}
    # Files of groups leave out the section that they belong to.
    assert [name for name in BOUNDS if not {name, name.partition(".")[2]} & known] == []


@pytest.mark.parametrize(
    "option",
    [
        "trainer.max_epochs=-1",
        "trainer.gradient_clip_val=null",
        "trainer.devices=[0,1]",
        "trainer.devices=auto",
        "trainer.precision=32",
        "trainer.limit_train_batches=0.5",
        "split.val_from=2023-06-01",
        "pairs.negatives_in_evaluation=null",
        "optimizer.lr=0",
        "optimizer=null",
        "chunk_tokens=${batch_size}",
        "webhook.timeout_s=0.5",
        "encoder.name=2",
        "dataset.columns.title=Summary",
        "dataset.columns.version=null",
        "run=./2",
        "encoder.name=${hydra:job.num}",
        "optimizer.lr=${oc.select:encoder.lr,0.2}",
        "batch_size=${hydra:job.num}",
    ],
)
def test_a_value_that_an_option_takes_is_let_through(option):
    check(option)
