"""A trained text branch as a folder that others read without gedbd.

A ``Format`` writes such a folder, and reads texts with it as a stranger would.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.encoder import TextEncoder
from gedbd.encoders.export.onnx_graph import read_onnx, write_onnx
from gedbd.encoders.export.sentence_transformers_folder import read_sentence_transformers, write_sentence_transformers


class Format(NamedTuple):
    """A format: the packages it needs, its writer into an empty folder, and its reader, ``N texts -> (N, D)``."""

    packages: tuple[str, ...]
    write: Callable[[Path, TextEncoder, PreTrainedTokenizerBase, int], None]
    read: Callable[[Path, list[str]], np.ndarray]


FORMATS = {
    "sentence_transformers": Format(
        ("sentence_transformers",), write_sentence_transformers, read_sentence_transformers
    ),
    "onnx": Format(("onnx", "onnxruntime", "onnxscript"), write_onnx, read_onnx),
}


def find_format(name: str) -> Format:
    """A format by its name.

    Raises:
        ValueError: If there is none, or a package that it needs is not installed.
    """
    if name not in FORMATS:
        raise ValueError(f"format={name} is unknown: choose {' or '.join(FORMATS)}")
    for package in FORMATS[name].packages:
        if find_spec(package) is None:
            raise ValueError(f"format={name}: {package} is not installed: pip install 'gedbd[export]'")
    return FORMATS[name]
