"""Sixty small Java methods in twelve files, and run folders with tiny encoders of code."""

import json

import pytest
import torch
from omegaconf import OmegaConf
from transformers import BertConfig, BertModel

from gedbd.configuration.saved_options import SCHEMA
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.java_sources import read_java_sources
from gedbd.encoders.code.encoder import save_encoder
from gedbd.encoders.code.inputs import InputLimits, InputParts
from gedbd.encoders.code.vocabulary import add_code_tokens
from gedbd.encoders.tiny import tiny_tokenizer

NOUNS = ("window", "folder", "index", "parser", "button", "reply", "theme", "report", "search", "field", "mail", "view")
ALL_PARTS = InputParts()
LIMITS = InputLimits(comment_tokens=24, code_tokens=120, nodes=40)


def java_method(noun: str, number: int) -> dict[str, object]:
    """A method with a loop, several uses of its variables, and a comment."""
    code = (
        f"int count{noun}{number}(String {noun}, int limit) {{ int total = {number}; for (int i = 0; i < limit; i++)"
        f" {{ total = total + {noun}.length() * i; }} if (total > limit) {{ return limit; }} return total; }}"
    )
    comment = f"Counts the {noun} number {number} of all. It never fails. Nor does it wait.\n\n@param limit the end"
    return {
        "path": f"src/{noun}.java",
        "name": f"count{noun}{number}",
        "line": number,
        "comment": comment,
        "code": code,
    }


@pytest.fixture(scope="session")
def methods_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("java") / "methods.jsonl"
    lines = [json.dumps(java_method(noun, number)) for noun in NOUNS for number in range(1, 6)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def java_corpus(methods_file) -> Corpus:
    return read_java_sources("java", str(methods_file))


@pytest.fixture(scope="session")
def make_run(java_corpus):
    """Writes the folder of a finished pre-training with a tiny encoder."""

    def make(folder, parts=ALL_PARTS, seed=0, split_seed=0):
        tokenizer = tiny_tokenizer()
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        torch.manual_seed(seed)
        backbone = BertModel(BertConfig(vocab_size=len(tokenizer), **sizes), add_pooling_layer=False)
        add_code_tokens(tokenizer, backbone)
        save_encoder(folder / "encoder", backbone, tokenizer, LIMITS, parts)
        split = {"_target_": "gedbd.corpora.splits.FileSplit", "val": 0.2, "test": 0.3, "seed": split_seed}
        dataset = {"_target_": "gedbd.corpora.readers.java_sources.read_java_sources", "name": "java", "path": "x"}
        others = {
            "encoder": {"_target_": "gedbd.encoders.code.untrained.UntrainedEncoder", "name": "untrained"},
            "text": {"_target_": "gedbd.text.templates.title_description", "_partial_": True},
        }
        OmegaConf.save({"dataset": dataset, "split": split, **others}, folder / "config.yaml")
        (folder / "versions.json").write_text(json.dumps({"schema": SCHEMA, "corpus": java_corpus.fingerprint}))
        return folder

    return make
