"""Options of the configuration: what their files name exists, and a training takes a step with those of the model."""

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf
from run_commands import composed as composed_for
from small_models import save_small_model

import gedbd
from gedbd.configuration.command import CONF_DIR
from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.encoders.openvino_backend import has_bfloat16
from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.experiments.distributed import FullyShardedStrategy, layers_of

DEMO = Path(gedbd.__file__).parent / "corpora" / "demo.csv"
GROUPS = (
    *("text", "split", "pairs", "protocol", "encoder", "backend"),
    *("graph", "fusion", "loss", "optimizer", "scheduler", "trainer", "logger", "task"),
)
ELSEWHERE = {
    "task": "confirmation localization pretraining",
    "encoder": "untrained",  # for that task alone
    "graph": "common titles dense_bert dense_unweighted",  # the last two in the paper's experiments
    "backend": "ray",
    "logger": "mlflow tensorboard wandb",
    "trainer": "a100 a100_80gb ddp fsdp gpu",
    "pairs": "shuffled",  # in the paper's experiments
    "split": "file held_out",  # of source code, which has no duplicates to train on; of several trackers
}
FILES = {path.relative_to(CONF_DIR).as_posix(): path for path in sorted(Path(CONF_DIR).rglob("*.yaml"))}
OPTIONS = [
    pytest.param(group, path.stem)
    for group in GROUPS
    for path in sorted(Path(CONF_DIR, group).glob("*.yaml"))
    if path.stem not in ELSEWHERE.get(group, "").split()
]
TOGETHER = [
    pytest.param(options, id=" ".join(options), marks=pytest.mark.slow)
    for options in (
        ("graph=dense", "graph.scope=train", "graph.rule.power=2"),
        ("graph=knn", "graph.scope=train", "graph.features=learnable"),
        ("graph=threshold", "graph.scope=train"),
        ("graph=dense", "graph.fields=[component,version]", "graph.field_weight=0.5"),
        ("graph=knn", "graph.features=learnable", "fusion=concat", "split=group"),
        ("split=pair", "pairs.fill_to=900", "pairs.negatives_per_positive=0"),
        ("scheduler.warmup_steps=3", "trainer.accumulate_grad_batches=2", "trainer.gradient_clip_val=0.1"),
        ("split.val_from=2023-06-01", "split.test_from=2024-01-01"),
        ("trainer.precision=bf16-mixed",),
        ("graph=knn", "graph.features=written", "graph.dropout=0.1", "graph.bias=false"),
    )
]
UNRANKED = "monitor=val/average_precision"  # as these steps rank nothing
NEEDED = {
    "before_2020": ["split.test_from=2024-01-01"],  # the bundled reports are later
    "fields": ["encoder.max_tokens=128"],
    "openvino_int8": ["graph=none"],
    "questions": [UNRANKED],
    "questions_modern": [UNRANKED],
    "triplet": ["task=questions", UNRANKED],
} | {trainer: ["trainer.accelerator=cpu", "trainer.max_epochs=1"] for trainer in ("default", "smoke")}
ARCHITECTURES = {
    "bert": (transformers.BertModel, transformers.BertConfig),
    "roberta": (transformers.RobertaModel, transformers.RobertaConfig),
    "codebert": (transformers.RobertaModel, transformers.RobertaConfig),
    "distilbert": (transformers.DistilBertModel, transformers.DistilBertConfig),
}
# Options whose models are read from the hub, with their architecture among the small models.
SMALL_MODELS = dict.fromkeys(("arctic", "bge_small", "e5_small", "gte_small", "multi_qa_minilm"), "bert")
SMALL_MODELS |= dict.fromkeys(("gte_modernbert", "modernbert", "modernbert_embed"), "modernbert")
SMALL_MODELS |= {"mpnet": "mpnet", "multilingual_e5_small": "xlm-roberta", "nomic": "nomic"}


@pytest.fixture
def step(tmp_path, run_command):
    """Trains two steps with some options, prints what the command does, and gives the run folder."""

    def through(*options):
        print(run_command("train", "batch_size=8", "ranking.parts=[]", "hydra.run.dir=run", *options))
        return tmp_path / "run"

    return through


@pytest.fixture(scope="module")
def taken() -> dict[str, Path]:
    """Run folders by configuration: ten of the options are defaults, and so one and the same run."""
    return {}


def random_encoder(name: str, folder: Path) -> list[str]:
    """Saves a random model of the architecture that an encoder option names, and points the option at it."""
    model, config = ARCHITECTURES[name]
    tokenizer = tiny_tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    if name == "distilbert":
        sizes = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    settings = config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)
    model(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return [f"encoder.model={folder}", "encoder.max_tokens=32", "encoder.dim=8"]


def targets(node: Any) -> Iterator[dict[str, Any]]:
    """The sections of a file that name a ``_target_``."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield node
        for value in node.values():
            yield from targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from targets(value)


@pytest.mark.parametrize("name", FILES)
def test_every_target_exists_and_takes_the_options_of_its_file(name):
    content = OmegaConf.to_container(OmegaConf.load(FILES[name]))
    for section in targets(content):
        parameters = inspect.signature(get_object(section["_target_"])).parameters
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        options = {option for option in section if not option.startswith("_")} - {"defaults"}
        assert takes_any or options <= parameters.keys()


@pytest.mark.slow  # trainings
@pytest.mark.no_cover
@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_option_takes_a_step(step, taken, tmp_path, group, option):
    chosen = {"encoder": "tiny", "trainer": "smoke"} | {group: option}
    more = NEEDED.get(option, [])
    if option in ARCHITECTURES:
        more = random_encoder(option, tmp_path / "model")
    elif option in SMALL_MODELS:
        folder = save_small_model(tmp_path / "model", SMALL_MODELS[option])
        more = [f"encoder.model={folder}", "encoder.max_tokens=32", "encoder.dim=8"]
    if group == "encoder" and option == "minilm":
        pd.read_csv(DEMO, dtype=str).head(200).to_csv(tmp_path / "fewer.csv", index=False)
        more = ["encoder.max_tokens=16", "graph=none", "dataset=csv", f"dataset.path={tmp_path}/fewer.csv"]
    if option == "openvino_bf16" and not has_bfloat16():
        pytest.skip("this CPU has no bfloat16")
    options = [*(f"{key}={value}" for key, value in chosen.items()), *more]
    config = OmegaConf.to_yaml(composed(*options))
    folder = taken[config] if config in taken else step(*options)
    taken[config] = folder
    epochs = pd.read_csv(folder / "metrics.csv")
    assert epochs["train/loss"].notna().all()
    assert (folder / "predictions.parquet").is_file()


@pytest.mark.parametrize("options", TOGETHER)
def test_options_work_together(step, options):
    folder = step("encoder=tiny", "trainer=smoke", *options)
    assert pd.read_csv(folder / "metrics.csv")["val/loss"].notna().all()


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("pairs", ["sampled", "grouped", "pk"])
def test_feedback_joins_the_training_pairs(step, tmp_path, capsys, pairs):
    reports = pd.read_csv(DEMO, dtype=str).sort_values("Created_time")
    alone = reports[reports["Duplicated_issue"].isna()]["Issue_id"].tolist()[:200]
    named = set(reports["Duplicated_issue"].dropna().str.split(";").explode())
    first, second, third = [name for name in alone if name not in named][:3]
    feedback = FeedbackStore(tmp_path)
    feedback.record(FeedbackEvent(Report(issue_id=first), second, "accept", "web"))
    feedback.record(FeedbackEvent(Report(issue_id=first), third, "reject", "web"))
    feedback.close()
    folder = step("encoder=tiny", "trainer=smoke", f"pairs={pairs}", f"pairs.feedback={tmp_path}")
    assert pd.read_csv(folder / "metrics.csv")["train/loss"].notna().all()
    assert "1 accepted and 1 rejected pairs join the training split" in capsys.readouterr().out


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["experiment=paper", "dataset=demo", "pairs.fill_to=600"],
        ["experiment=paper_text", "dataset=csv", f"dataset.path={DEMO}"],
        ["experiment=ours", "dataset=demo"],
    ],
    ids=lambda options: options[0],
)
def test_the_papers_experiments_take_other_corpora(step, options):
    folder = step("encoder=tiny", "trainer=smoke", *options)
    assert pd.read_csv(folder / "metrics.csv")["val/loss"].notna().all()
    assert (folder / "figures" / "title_cosines.png").is_file()
    assert OmegaConf.load(folder / "config.yaml").graph.titles.name == "minilm"


composed = partial(composed_for, "train")


def fine_tuning(*options) -> tuple[float, ...]:
    cfg = composed(*options)
    return cfg.optimizer.lr, cfg.loss.margin, cfg.batch_size, cfg.trainer.max_epochs, cfg.patience


@pytest.mark.parametrize("encoder", ["bert", "roberta", "distilbert", "codebert", "modernbert"])
@pytest.mark.quick_cases(2)
def test_encoders_of_berts_size_bring_their_own_fine_tuning(encoder):
    assert fine_tuning(f"encoder={encoder}", "dataset=eclipse") == (2e-5, 0.5, 32, 5, 2)
    assert fine_tuning(f"encoder={encoder}", "optimizer.lr=1e-3", "loss.margin=0", "patience=9") == (1e-3, 0, 32, 5, 9)
    assert fine_tuning(f"encoder={encoder}", "experiment=paper_text") == (2e-5, 0.5, 64, 5, 3)


def test_the_papers_text_and_code_differ_where_they_are_said_to():
    text, code = composed("experiment=paper_text"), composed("experiment=paper_code")
    differ = {
        "split._target_": ("gedbd.sampling.splits.GroupSplit", "gedbd.sampling.splits.PairSplit"),
        "pairs.negatives_per_positive": (1.0, 0),
        "pairs.random_negatives": (5000, 0),
        "pairs.fill_to": (None, 50000),
        "graph.features": ("written", "written_detached"),
        "graph.rule.power": (1, 0),
        "graph.dropout": (0.0, 0.1),
        "graph.bias": (True, False),
        "monitor": ("val/loss", "val/f1"),
        "patience": (3, 5),
        "lock_threshold": (None, True),
    }
    for name, values in differ.items():
        assert (OmegaConf.select(text, name), OmegaConf.select(code, name)) == values, name
    assert code.batches.shuffle
    assert "shuffle" not in text.batches
    assert code.trainer.precision == "32-true"
    assert text.trainer.gradient_clip_val is code.trainer.gradient_clip_val is None
    for name in ("optimizer.lr", "loss.margin", "fusion.lambda_text", "graph.pca_dim", "encoder.dim", "batch_size"):
        assert OmegaConf.select(text, name) == OmegaConf.select(code, name), name


def test_the_questions_paper_clips_no_gradients_and_the_command_line_may():
    assert composed().trainer.gradient_clip_val == 1
    assert composed("task=questions").trainer.gradient_clip_val is None
    assert composed("task=questions_modern").trainer.gradient_clip_val == 1
    assert composed("task=questions", "trainer.gradient_clip_val=2").trainer.gradient_clip_val == 2


def test_gpu_trainer_says_when_there_is_none(step):
    if torch.cuda.is_available():
        assert step("encoder=tiny", "trainer=gpu", "trainer.max_epochs=1").is_dir()
    else:
        with pytest.raises(SystemExit, match="torch finds no GPU on this machine"):
            step("encoder=tiny", "trainer=gpu")


@pytest.mark.parametrize(("trainer", "batch_size"), [("a100", 128), ("a100_80gb", 256)])
def test_a100_sets_what_such_a_gpu_is_bought_for(trainer, batch_size):
    cfg = composed(f"trainer={trainer}")
    assert (cfg.trainer.accelerator, cfg.trainer.precision, cfg.trainer.devices) == ("gpu", "bf16-mixed", 1)
    assert (cfg.batch_size, cfg.compile, cfg.matmul_precision, cfg.optimizer.fused) == (batch_size, True, "high", True)
    assert cfg.batches.batch_size == batch_size
    assert composed(f"trainer={trainer}", "pairs=pk").batches.batch_size == batch_size


def test_the_command_line_and_experiments_count_more_than_the_trainer():
    cfg = composed("trainer=a100", "batch_size=8", "compile=false", "matmul_precision=highest", "trainer.max_epochs=7")
    assert (cfg.batch_size, cfg.batches.batch_size, cfg.compile, cfg.matmul_precision) == (8, 8, False, "highest")
    assert cfg.trainer.max_epochs == 7
    paper = composed("trainer=a100", "experiment=paper")
    assert (paper.batch_size, paper.trainer.max_epochs) == (64, 5)


def test_fsdp_composes_and_its_strategy_can_be_made():
    cfg = composed("trainer=fsdp", "trainer.devices=2", "trainer.accelerator=cpu", "trainer.precision=bf16-mixed")
    trainer = instantiate(cfg.trainer, logger=False, enable_checkpointing=False)
    assert isinstance(trainer.strategy, FullyShardedStrategy)
    assert (trainer.world_size, trainer.strategy.num_processes) == (2, 2)


@pytest.mark.parametrize(
    "config",
    [transformers.BertConfig, transformers.DistilBertConfig, transformers.MPNetConfig, transformers.ModernBertConfig],
)
def test_the_layers_of_a_transformer_are_found(config):
    with torch.device("meta"):
        backbone = transformers.AutoModel.from_config(config())
    layers = layers_of(backbone)
    wanted = {"num_hidden_layers", "n_layers"} & config().to_dict().keys()
    assert len(layers) == config().to_dict()[wanted.pop()]
    assert len({type(layer) for layer in layers}) == 1
    assert layers_of(torch.nn.Linear(2, 2)) == []


PUBLISHED_ROWS = (92_370, 11_675, 11_769)


def test_the_published_settings_of_supcon():
    cfg = composed("experiment=supcon_paper", "encoder=minilm")
    assert (cfg.dataset.name, cfg.dataset.rows.reports) == ("firefox", sum(PUBLISHED_ROWS))
    assert (cfg.split._target_, cfg.split.val, cfg.split.test) == ("gedbd.sampling.splits.GroupSplit", 0.1, 0.1)
    assert (cfg.encoder.model, cfg.encoder.pooling) == ("sentence-transformers/all-MiniLM-L6-v2", "mean")
    assert (cfg.batch_size, cfg.batches.per_group, cfg.batches.singletons) == (32, 2, 0.0)
    assert (cfg.loss._target_, cfg.loss.temperature) == ("gedbd.losses.SupervisedContrastiveLoss", 0.07)
    assert (cfg.optimizer.lr, cfg.trainer.max_epochs) == (2e-5, 100)
    assert cfg.text.order[:6] == ["product", "component", "os", "priority", "summary", "description"]
    assert (cfg.text.tokens, cfg.text.captions, set(cfg.text.cleaning.values())) == (
        None,
        None,
        {"gedbd.text.cleaning.Cleaning", "keep"},
    )
    assert (list(cfg.ranking.protocols), cfg.monitor, cfg.patience) == (["test_pool"], "val/pool_rr@10", 10)
    assert cfg.graph.rule is None


@pytest.mark.slow  # a training
def test_supcon_runs_on_the_demo(run_command, tmp_path):
    small = ["dataset=demo", "encoder=tiny", "encoder.max_tokens=64", "trainer.max_epochs=1", "hydra.run.dir=run"]
    run_command("train", "experiment=supcon_paper", *small, "trainer.accelerator=cpu")
    state = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    projection = state["encoder.projection.weight"]  # orthonormal as it began, so that it stands for none
    torch.testing.assert_close(projection @ projection.T, torch.eye(len(projection)), rtol=0, atol=1e-5)
    pool = pd.read_csv(tmp_path / "run" / "ranking_test_pool.csv")
    assert {"rr@1", "rr@5", "rr@10", "rr@20", "mrr", "map@10"} <= set(pool)
    assert not (tmp_path / "run" / "ranking.csv").exists()


UNDROPPED = ["encoder=tiny", "encoder.dropout=0", "trainer=smoke", "ranking.parts=[]", "batch_size=24", "seed=3"]


@pytest.mark.slow  # two minutes of compiling
def test_losses_and_weights_are_the_same(run_command):
    def trained(folder, *options):
        run_command("train", *UNDROPPED, *options, f"hydra.run.dir={folder}")
        weights = torch.load(f"{folder}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        return float(pd.read_csv(f"{folder}/metrics.csv")["train/loss"][0]), weights

    loss, weights = trained("plain")
    assert trained("compiled", "compile=true")[0] == pytest.approx(loss, abs=1e-5)
    for option in ("chunk_tokens=64", "optimizer.fused=false"):
        again, found = trained(option.partition("=")[0], option)
        assert again == pytest.approx(loss, abs=1e-6)
        for key, value in weights.items():
            torch.testing.assert_close(found[key], value, atol=2e-6, rtol=0, msg=key)
