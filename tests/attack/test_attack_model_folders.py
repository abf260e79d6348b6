"""The folder of a model runs no code, whatever its files name and whatever is answered on the terminal."""

import ast
import io
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.encoders.model_captioner import load_captioner, tiny_processor, tiny_vision_model
from gedbd.encoders.pretrained import tiny_backbone, tiny_tokenizer
from gedbd.localization.code_encoder.code_encoder import load_code_encoder, save_encoder
from gedbd.localization.code_encoder.code_inputs import InputLimits, InputParts, add_code_tokens

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAMS = [path for name in ("gedbd", "examples", "hydra_plugins") for path in (ROOT / name).rglob("*.py")]
PROGRAMS += [*(ROOT / "docs").rglob("*.py"), *(ROOT / "tests" / "benchmarks").glob("*.py")]
LOADERS = {"SentenceTransformer", "CrossEncoder", "pipeline"}
NAMED = re.compile(r"from_pretrained|from_config|load|allow_pickle|SentenceTransformer|CrossEncoder|pipeline")
CODE = "from pathlib import Path\nPath({trace!r}).touch()\n"


def text_encoder(folder: Path) -> object:
    return load_encoder("mine", str(folder), "mean", 8, 16)


def captioner(folder: Path) -> object:
    return load_captioner("mine", str(folder), "Describe.", 4)


@pytest.fixture
def answer_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks on the terminal gets a yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The file that code of a folder leaves when it runs."""
    return tmp_path / "trace"


@pytest.fixture(params=[text_encoder, load_code_encoder, captioner])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[Path], object]]:
    """The folder of a small model, and what loads it."""
    folder = tmp_path / "model"
    if request.param is captioner:
        processor = tiny_processor()
        tiny_vision_model(8, 1, 0, processor).save_pretrained(folder)
        processor.save_pretrained(folder)
    elif request.param is load_code_encoder:
        tokenizer = tiny_tokenizer()
        backbone = tiny_backbone(8, 1, 0.0, 0, len(tokenizer))
        add_code_tokens(tokenizer, backbone)
        save_encoder(folder, backbone, tokenizer, InputLimits(8, 16, 8), InputParts())
    else:
        tokenizer = tiny_tokenizer()
        tiny_backbone(8, 1, 0.0, 0, len(tokenizer)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    assert request.param(folder)
    return folder, request.param


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps((json.loads(path.read_text()) if path.is_file() else {}) | values))


@pytest.mark.usefixtures("answer_yes")
@pytest.mark.parametrize("kind", ["evil", None])
def test_code_beside_a_model_is_not_run(model, trace, kind):
    folder, load = model
    (folder / "evil.py").write_text(CODE.format(trace=str(trace)) + "class Evil: pass\n")
    classes = ("AutoConfig", "AutoModel", "AutoModelForImageTextToText", "AutoTokenizer", "AutoProcessor")
    named = dict.fromkeys((*classes, "AutoImageProcessor"), "evil.Evil") | {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    other = {"model_type": kind, "architectures": ["Evil"]} if kind else {}
    change(folder / "config.json", auto_map=named, **other)
    for name in ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json"):
        change(
            folder / name, auto_map=named, **({"tokenizer_class": "Evil", "processor_class": "Evil"} if kind else {})
        )
    for name in ("modules.json", "adapter_config.json"):
        (folder / name).write_text(json.dumps([{"type": "evil.Evil", "path": ""}] if name[0] == "m" else {}))
    if kind or load is text_encoder:
        with pytest.raises(ValueError, match=r"cannot load|takes|names no|has the modules Evil"):
            load(folder)
    else:
        load(folder)
    assert not trace.exists()


class Evil:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.trace), "w")


@pytest.mark.usefixtures("answer_yes")
@pytest.mark.parametrize("packed", [True, False])
def test_a_pickle_in_a_folder_is_not_run(model, trace, packed):
    folder, load = model
    weights = load_file(folder / "model.safetensors") | {"evil": Evil(trace)}
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        torch.save(weights, folder / name, _use_new_zipfile_serialization=packed)
    load(folder)  # the safetensors are taken
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot load") as refused:
        load(folder)
    assert "\n" not in str(refused.value)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(trace)))
    with pytest.raises(ValueError, match="cannot load"):
        load(folder)
    assert not trace.exists()


def test_a_kernel_or_a_quantisation_that_a_configuration_names_is_not_fetched(model):
    folder, load = model
    change(folder / "config.json", attn_implementation="kernels-community/evil")
    assert load(folder)
    change(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ValueError, match=r"cannot load|package") as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def test_the_tree_loads_models_without_code_and_without_pickles():
    found = 0
    for path in PROGRAMS:
        text = path.read_text(encoding="utf-8")
        if not NAMED.search(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and str(node.module).startswith("gedbd.")]
        own = {name.asname or name.name for node in imports for name in node.names}
        own |= {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            name = ast.unparse(call.func).rpartition(".")[2]
            given = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
            where = f"{path.relative_to(ROOT)}:{call.lineno}: {name}"
            assert given.get("allow_pickle", False) is False, where
            if ast.unparse(call.func) in ("torch.load", "torch.jit.load"):
                assert given.get("weights_only") is True, where
            # Given modules, SentenceTransformer loads nothing.
            if name in {"from_pretrained", "from_config", *LOADERS - own} and "modules" not in given:
                assert given.get("trust_remote_code") is False, f"{where}: trust_remote_code=False"
                found += 1
    assert found > 8


SPLIT = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
TENSOR = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
DAMAGED: dict[str, list[bytes | dict[str, Any]]] = {
    "config.json": [
        *(b"", b"[]", b"[" * 100_000, b'{"a":' * 50_000, bytes(range(256))),
        *({"hidden_size": size} for size in ("a", -8, 10**9, 10**400)),
        *({"num_attention_heads": 0}, {"hidden_act": "os.system"}, {"dtype": "os.system"}),
        *({"model_type": kind} for kind in ("evil", ["bert"], None)),
        *({"quantization_config": [1]}, {"transformers_weights": "../../../etc/passwd"}),
    ],
    "model.safetensors": [
        *(pack("<Q", size) + b"{}" for size in (0, 2**40, 2**63)),
        *(
            {"a": TENSOR | {"shape": [2**62, 4]}},
            {"a": TENSOR, "b": TENSOR},
            {"a": TENSOR | {"data_offsets": [0, 2**62]}},
        ),
        b"\x88\x13" + b"\0" * 6 + b'{"a":' * 1_000,
    ],
    "tokenizer.json": [b"", b"[]", b"[" * 100_000, {"pre_tokenizer": SPLIT}, {"model": {"type": "WordLevel"}}],
}


def test_damaged_files_are_told_in_one_line(tmp_path):
    tokenizer = tiny_tokenizer()
    tiny_backbone(8, 1, 0.0, 0, len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for name, contents in DAMAGED.items():
        whole = (tmp_path / name).read_bytes()
        for content in contents:
            if isinstance(content, bytes):
                (tmp_path / name).write_bytes(content)
            elif name == "model.safetensors":
                header = json.dumps(content).encode()
                (tmp_path / name).write_bytes(pack("<Q", len(header)) + header + b"0000")
            else:
                change(tmp_path / name, **content)
            with pytest.raises(ValueError, match=r"encoder=mine: cannot load") as refused:
                text_encoder(tmp_path)
            assert "\n" not in str(refused.value), content
            (tmp_path / name).write_bytes(whole)
    vocabulary = json.loads(whole)["model"]["vocab"]
    change(
        tmp_path / name,
        model=json.loads(whole)["model"] | {"vocab": {word: 10**6 + vocabulary[word] for word in vocabulary}},
    )
    with pytest.raises(ValueError, match="its tokenizer has token ids up to"):
        text_encoder(tmp_path)
