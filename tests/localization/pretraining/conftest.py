"""Forty generated Java methods, five a file, and their inputs."""

import json
from pathlib import Path

import pytest

from gedbd.localization.code_encoder.code_encoder import byte_pair_tokenizer
from gedbd.localization.code_encoder.code_inputs import CODE_TOKENS, InputLimits, InputParts
from gedbd.localization.code_encoder.masking import find_priors
from gedbd.localization.code_encoder.pretraining_data import read_inputs

NUM_METHODS = 40
NAMES = ("count", "total", "limit", "size")
METHOD = """int {name}{number}(int {name}, String text) {{
    int result = {name} * {number};
    for (int i = 0; i < text.length(); i++) {{
        if (result > i) {{
            result = result - text.charAt(i);
        }}
    }}
    return result;
}}"""


def method(number: int) -> dict[str, object]:
    name = NAMES[number % len(NAMES)]
    code = METHOD.format(name=name, number=number)
    return {
        "path": f"F{number // 5}.java",
        "name": f"{name}{number}",
        "line": 1 + 10 * (number % 5),
        "comment": f"Adds the {name}.",
        "code": code,
    }


@pytest.fixture(scope="session")
def methods_file(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("methods") / "methods.jsonl"
    file.write_text("".join(json.dumps(method(number)) + "\n" for number in range(NUM_METHODS)))
    return file


@pytest.fixture(scope="session")
def table():
    import pandas as pd

    return pd.DataFrame([method(number) for number in range(NUM_METHODS)]).rename(columns={"code": "description"})


@pytest.fixture(scope="session")
def tokenizer(table):
    made = byte_pair_tokenizer(table["description"], 400)
    made.add_tokens(list(CODE_TOKENS), special_tokens=True)
    return made


@pytest.fixture(scope="session")
def inputs(table, tokenizer):
    return read_inputs(table, tokenizer, InputLimits(), InputParts())[0]


@pytest.fixture(scope="session")
def priors(inputs):
    return find_priors(inputs)
