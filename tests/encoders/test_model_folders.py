"""Folders of models: each is read as sentence-transformers or peft read it, or refused in one line."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from small_models import HIDDEN, save_small_model, small_model
from transformers import BertForMaskedLM, T5Config

import gedbd
from gedbd.configuration.options import compose_options
from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.encoders.model_options import model_options

TEXTS = ["crash on start", "", "the editor", "crash " * 90, "on start of the Editor"]
LENGTH = 20


def sentence_model(
    folder: Path, architecture: str = "bert", pooling: str = "mean", dense: Dense | None = None, **options
) -> SentenceTransformer:
    """A model of sentence-transformers in a folder."""
    base = save_small_model(folder.parent / f"{folder.name}-base", architecture)
    modules = [Transformer(str(base)), Pooling(HIDDEN, pooling), *([dense] if dense else []), Normalize()]
    model = SentenceTransformer(modules=modules, device="cpu", **options)
    model.max_seq_length = LENGTH
    model.save(str(folder))
    return model


def rewrite(path: Path, **values) -> None:
    """Changes entries of a JSON file; None removes them."""
    old = json.loads(path.read_text()) if path.is_file() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in (old | values).items() if value is not None}))


def old_layout(folder: Path) -> None:
    """Moves the files as sentence-transformers wrote them before version 2, with pickles of tensors."""
    (folder / "0_Transformer").mkdir()
    for file in [file for file in folder.iterdir() if file.is_file() and "sentence_trans" not in file.name]:
        shutil.move(file, folder / "0_Transformer" / file.name)
    modules = json.loads((folder / "0_Transformer" / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    settings = folder / "0_Transformer" / "sentence_bert_config.json"
    settings.write_text(json.dumps({"max_seq_length": 12, "do_lower_case": True}))
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    rewrite(folder / "1_Pooling" / "config.json", pooling_mode=None, include_prompt=None, **flags)
    for name in ("0_Transformer/model", "2_Dense/model"):
        weights = load_file(folder / f"{name}.safetensors")
        torch.save(weights, folder / f"{name.replace('model', 'pytorch_model')}.bin")
        (folder / f"{name}.safetensors").unlink()


LINEAR = partial(Dense, HIDDEN, 6, activation_function=torch.nn.Identity())
PROMPT = {"prompts": {"task": "query: ", "other": "on "}, "default_prompt_name": "task"}
SENTENCE_MODELS = {
    "cls": {"pooling": "cls"},
    "mean, of roberta": {"architecture": "roberta"},
    "dense": {"dense": LINEAR},
    "dense without bias, and a prompt": {"dense": partial(LINEAR, bias=False), **PROMPT},
    "prompt": {"pooling": "cls", **PROMPT},
    "prompts without a default": {"prompts": PROMPT["prompts"]},
    "truncated": {"truncate_dim": 8},
    "old layout": {"dense": LINEAR},
}


@pytest.mark.parametrize("kind", SENTENCE_MODELS)
def test_commands_and_python_give_the_vectors_of_sentence_transformers(tmp_path, kind):
    folder = tmp_path / "model"
    options = SENTENCE_MODELS[kind]
    torch.manual_seed(0)
    sentence_model(folder, **{name: value() if name == "dense" else value for name, value in options.items()})
    if kind == "old layout":
        old_layout(folder)
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)  # those of a truncated model have no unit length
    cfg = compose_options("encode", ["dataset=demo", "out=v.npz", f"encoder.model={folder}"])
    by_command = instantiate(cfg.encoder)
    for encoder in (by_command, gedbd.Encoder(folder, cache_dir=tmp_path / "cache", backend="torch")):
        np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
        np.testing.assert_allclose(encoder.encode(TEXTS, kind="query"), expected, atol=1e-5)
    assert by_command.max_tokens == (12 if kind == "old layout" else LENGTH)
    model = gedbd.DuplicateDetector(str(folder))
    assert (model.encoder.pooling, model.loaded_encoder.prefix) == (by_command.model.pooling, by_command.prefix)


def test_a_preset_that_is_chosen_must_not_contradict_the_files(tmp_path):
    folder = tmp_path / "model"
    sentence_model(folder, **PROMPT)
    words = ["dataset=demo", "out=v.npz", f"encoder.model={folder}"]
    with pytest.raises(ValueError, match=r"state encoder.pooling=mean, and the preset bert has encoder.pooling="):
        compose_options("encode", [*words, "encoder=bert"])
    with pytest.raises(ValueError, match=r"state \"encoder.prefix='query: '\", and the preset gte_small has e"):
        compose_options("encode", [*words, "encoder=gte_small"])
    chosen = compose_options("encode", [*words, "encoder=bert", "encoder.pooling=cls", "encoder.prefix=null"]).encoder
    assert (chosen.pooling, chosen.prefix, chosen.max_tokens, chosen.dim) == ("cls", None, 256, 128)
    typed = compose_options("encode", [*words, "encoder.pooling=cls", "encoder.max_tokens=9", "encoder.dim=4"]).encoder
    assert (typed.pooling, typed.prefix, typed.max_tokens, typed.dim) == ("cls", "query: ", 9, 4)
    assert compose_options("encode", words[:2]).encoder.max_tokens == 128


def rename(folder: Path, change, file: str = "model.safetensors") -> None:
    """Changes the names of the weights: to ``change(name)``, or none if that is empty."""
    state = load_file(folder / file)
    save_file({change(name): value for name, value in state.items() if change(name)}, folder / file, {"format": "pt"})


def as_bin(folder: Path, prefix: str = "") -> None:
    state = {prefix + name: value for name, value in load_file(folder / "model.safetensors").items()}
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def sharded(folder: Path, prefix: str = "") -> None:
    small_model("bert")[0].save_pretrained(folder, max_shard_size="60KB")
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"]
    assert len(set(names.values())) > 1
    for file in set(names.values()):
        rename(folder, lambda name: prefix + name, file)
    rewrite(index, weight_map={prefix + name: file for name, file in names.items()})


def language_model(folder: Path) -> None:
    """With a head, whose weights are tied to the embeddings."""
    model = BertForMaskedLM(small_model("bert")[0].config)
    model.bert.load_state_dict(small_model("bert")[0].state_dict(), strict=False)
    model.save_pretrained(folder)


def two_encoders(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    save_file(
        {f"{side}.{name}": value + 0 for side in ("query", "passage") for name, value in state.items()},
        folder / "model.safetensors",
    )


SAME = "same vectors"
SAID = "same vectors, and a warning that names the prefix "
WEIGHTS = {
    "as saved": (lambda folder: None, SAME),
    "bert.": (lambda folder: rename(folder, "bert.{}".format), SAME),
    "module.": (lambda folder: rename(folder, "module.{}".format), f"{SAID}module."),
    "of sentence-transformers": (lambda folder: rename(folder, "0.auto_model.{}".format), f"{SAID}0.auto_model."),
    "like a layer of its own": (lambda folder: rename(folder, "encoder.{}".format), f"{SAID}encoder."),
    "of another architecture's name": (lambda folder: rename(folder, "roberta.{}".format), f"{SAID}roberta."),
    "two prefixes": (lambda folder: rename(folder, "module.bert.{}".format), f"{SAID}module.bert."),
    "bin": (as_bin, SAME),
    "bin with a prefix": (partial(as_bin, prefix="module."), f"{SAID}module."),
    "sharded": (sharded, SAME),
    "sharded with a prefix": (partial(sharded, prefix="model."), f"{SAID}model."),
    "tied weights": (language_model, SAME),
    "a layer missing": (
        lambda folder: rename(folder, lambda name: "" if ".layer.1." in name else name),
        r"config.json, a bert: encoder.layer.1.attention.output.LayerNorm.bias is missing, like 15 others: save wei",
    ),
    "one weight missing": (
        lambda folder: rename(folder, lambda name: "" if "word_emb" in name else f"module.{name}"),
        r"embeddings.word_embeddings.weight is missing: save weights and config.json together",
    ),
    "a layer too many": (
        lambda folder: rewrite(folder / "config.json", num_hidden_layers=1),
        r"its config.json, a bert: it has no place for encoder.layer.1.attention.output.LayerNorm.bias: save",
    ),
    "other sizes": (lambda folder: rewrite(folder / "config.json", intermediate_size=8), r"cannot load .*folder>"),
    "another architecture": (
        lambda folder: (
            small_model("distilbert")[0].save_pretrained(folder / "other")
            or shutil.copy(folder / "other" / "model.safetensors", folder)
        ),
        r"config.json, a bert: embeddings.token_type_embeddings.weight is missing, like \d+ others",
    ),
    "two encoders": (two_encoders, r"holds the weights of two encoders, (query|passage)\. and (query|passage)\.: save"),
    "an adapter that is not merged": (
        lambda folder: rename(folder, lambda name: name.replace("pooler.dense", "x.lora_A")),
        r"holds an adapter that is not merged, x.lora_A.bias: merge it with peft",
    ),
    "a decoder": (
        lambda folder: T5Config(d_model=HIDDEN, num_layers=1).save_pretrained(folder),
        r"is an encoder with a decoder, t5, not a text encoder",
    ),
    "no model_type": (
        lambda folder: rewrite(folder / "config.json", model_type=None),
        r"cannot load .*model_type.*set encoder.model=<folder>",
    ),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        r".* has no tokenizer: save it there with tokenizer.save_pretrained",
    ),
    "no folder": (shutil.rmtree, r"encoder.model=.*: there is no such folder"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"cannot load .*no file named"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_every_weight_is_read_or_the_folder_is_refused(tmp_path, kind, caplog):
    change, expected = WEIGHTS[kind]
    folder = save_small_model(tmp_path / "model", "bert")
    change(folder)
    if expected.startswith(SAME):
        found = load_encoder("mine", str(folder), "mean", 4, None)
        assert found.max_tokens == 64
        state = found.model.backbone.state_dict()
        whole = small_model("bert")[0].state_dict()
        assert all(torch.equal(value, whole[name]) for name, value in state.items())
        prefix = expected.removeprefix(SAID) if expected.startswith(SAID) else ""
        lines = [record.getMessage() for record in caplog.records if record.name == "gedbd"]
        assert [f"begin with {prefix}, which" in line for line in lines] == [True] * bool(prefix)
        return
    with pytest.raises(ValueError, match=f"^encoder=mine: .*{expected}") as refused:
        load_encoder("mine", str(folder), "mean", 4, None)
    assert "\n" not in str(refused.value)


ABOUT, SETTINGS = "config_sentence_transformers.json", "sentence_bert_config.json"
POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
PROMPTED = {"prompts": {"a": "query: "}, "default_prompt_name": "a"}
REFUSED = [
    ({POOLING: {"pooling_mode": "max"}}, "uses the pooling max, but gedbd supports only mean and cls"),
    ({POOLING: {"pooling_mode": ["cls", "mean"]}}, "uses the pooling cls and mean, but"),
    ({DENSE: {"activation_function": "torch.nn.modules.activation.Tanh"}}, "a module Dense that is not a linear map"),
    ({DENSE: {"use_residual": True}}, "a module Dense that is not a linear map alone"),
    ({ABOUT: {"default_prompt_name": "none"}}, "has no prompt of the name none, its default"),
    ({ABOUT: PROMPTED, POOLING: {"include_prompt": False}}, "leaves its prompt out of the pooling"),
    ({ABOUT: {"model_type": "CrossEncoder"}}, "is a CrossEncoder, which gedbd does not support"),
    ({ABOUT: {"truncate_dim": 4}}, "truncates projected vectors"),
    ({SETTINGS: {"transformer_task": "fill-mask"}}, "sets transformer_task=fill-mask, which"),
    ({SETTINGS: {"config_args": {"num_hidden_layers": 1}}}, "sets config_args={'num_hidden_layers': 1}, which"),
    ({"adapter_config.json": {"peft_type": "LORA"}}, "holds a model and a PEFT adapter"),
]


def test_what_gedbd_does_not_support_is_refused_in_one_line(tmp_path):
    sentence_model(tmp_path / "whole", dense=LINEAR())
    for number, (files, line) in enumerate(REFUSED):
        folder = shutil.copytree(tmp_path / "whole", tmp_path / str(number))
        for name, values in files.items():
            rewrite(folder / name, **values)
        for load in (load_encoder, lambda name, model, *_: model_options(name, model)):
            with pytest.raises(ValueError, match=f"^encoder=mine: [^\n]*{line}[^\n]*$"):
                load("mine", str(folder), "mean", 6, None)
    modules = json.loads((tmp_path / "whole" / "modules.json").read_text())
    for order in ([0, 1, 3, 2], [0, 2], [1, 0], [0, 1, 2, 2], []):
        kinds = [modules[number]["type"].rpartition(".")[2] for number in order]
        (tmp_path / "whole" / "modules.json").write_text(json.dumps([modules[number] for number in order]))
        with pytest.raises(ValueError, match=f"has the modules {', '.join(kinds) or 'none'}; gedbd supports"):
            model_options("mine", str(tmp_path / "whole"))
    with pytest.raises(ValueError, match=r"its config.json is missing, or names no hidden_size: it is not a text enco"):
        gedbd.Encoder(tmp_path)


def save_adapter(folder: Path, base: str, **settings) -> dict[str, torch.Tensor]:
    """Writes a LoRA adapter as peft does, without a tokenizer; returns what it adds to the weights of its base."""
    rewrite(folder / "adapter_config.json", base_model_name_or_path=base, peft_type="LORA", lora_alpha=8, **settings)
    random = torch.Generator().manual_seed(0)
    state, added = {}, {}
    for name in ("encoder.layer.0.attention.self.query", "encoder.layer.1.output.dense"):
        weight = small_model("bert")[0].get_submodule(name).weight
        down, up = torch.randn(4, weight.shape[1], generator=random), torch.randn(len(weight), 4, generator=random)
        state |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
        added[f"{name}.weight"] = up @ down * (8 / (2 if settings.get("use_rslora") else 4))
    save_file(state, folder / "adapter_model.safetensors")
    return added


@pytest.mark.parametrize("settings", [{}, {"use_rslora": True}])
def test_an_adapter_is_added_to_its_base(tmp_path, settings, caplog):
    base = save_small_model(tmp_path / "base", "bert")
    added = save_adapter(tmp_path / "adapter", str(base), **settings)
    found = load_encoder("mine", str(tmp_path / "adapter"), "mean", 4, None).model.backbone.state_dict()
    for name, value in small_model("bert")[0].state_dict().items():
        if not name.startswith("pooler"):
            torch.testing.assert_close(found[name], value + added.get(name, 0))
    assert f"{tmp_path}/adapter: the adapter is added to its base, {base}" in caplog.messages
    assert gedbd.Encoder(tmp_path / "adapter").dim == HIDDEN


def test_an_adapter_of_the_installed_model_needs_no_download(tmp_path):
    name = "sentence-transformers/all-MiniLM-L6-v2"
    rewrite(tmp_path / "a" / "adapter_config.json", base_model_name_or_path=name, peft_type="LORA", lora_alpha=8)
    save_file({}, tmp_path / "a" / "adapter_model.safetensors")
    adapted, plain = (gedbd.Encoder(model, cache_dir=tmp_path, max_tokens=9) for model in (tmp_path / "a", "minilm"))
    assert (adapted.encode(TEXTS, "query") == plain.encode(TEXTS, "query")).all()


ADAPTERS = [
    ({"base_model_name_or_path": "ann/none"}, {}, "its base ann/none is not on this machine: download it"),
    ({"base_model_name_or_path": "/no/base"}, {}, "its base /no/base is not on this machine: download it"),
    ({"base_model_name_or_path": "."}, {}, "is a PEFT adapter of ., an adapter too: merge"),
    ({"peft_type": "IA3"}, {}, "is a PEFT adapter with peft_type=IA3: merge it with peft"),
    ({"use_dora": True}, {}, "is a PEFT adapter with use_dora=True: merge it with peft"),
    ({}, {"x.lora_A.weight": (4, 16)}, "x.lora_A.weight does not fit the adapter's base"),
    ({}, {"encoder.layer.0.output.dense.lora_A.weight": (4, 9)}, "does not fit the adapter's base"),
    ({}, {"encoder.layer.0.output.dense.bias": (16,)}, "dense.bias, which gedbd does not add: merge it with"),
]


def test_adapters_that_cannot_be_added_are_refused(tmp_path, monkeypatch):
    base = save_small_model(tmp_path / "base", "bert")
    for number, (settings, weights, line) in enumerate(ADAPTERS):
        folder = tmp_path / str(number)
        save_adapter(folder, str(base))
        rewrite(folder / "adapter_config.json", **settings)
        monkeypatch.chdir(folder)
        state = load_file(folder / "adapter_model.safetensors")
        state |= {f"base_model.model.{name}": torch.ones(size) for name, size in weights.items()}
        save_file(state, folder / "adapter_model.safetensors")
        with pytest.raises(ValueError, match=f"^encoder=mine: [^\n]*{line}[^\n]*$"):
            load_encoder("mine", str(folder), "mean", 4, None)
