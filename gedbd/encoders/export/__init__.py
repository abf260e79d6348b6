"""Formats of exported encoders: folders that other software reads without gedbd."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gedbd.encoders.encoder import Encoder
from gedbd.encoders.export.onnx_graph import read_onnx, write_onnx
from gedbd.encoders.export.sentence_transformers_folder import read_sentence_transformers, write_sentence_transformers


class Format(NamedTuple):
    """A format: the packages it needs, a function that writes an empty folder, and one that encodes with the result.

    ``read`` uses the format's own library, as other software would: N texts to ``(N, D)``.
    """

    packages: tuple[str, ...]
    write: Callable[[Path, Encoder], None]
    read: Callable[[Path, list[str]], np.ndarray]


FORMATS = {
    "sentence_transformers": Format(
        ("sentence_transformers",), write_sentence_transformers, read_sentence_transformers
    ),
    "onnx": Format(("onnx", "onnxruntime", "onnxscript"), write_onnx, read_onnx),
}


def find_format(name: str) -> Format:
    """The format of a name.

    Raises:
        ValueError: If the name is unknown, or a package that the format needs is not installed.
    """
    if name not in FORMATS:
        raise ValueError(f"format={name} is unknown: choose {' or '.join(FORMATS)}")
    for package in FORMATS[name].packages:
        if find_spec(package) is None:
            raise ValueError(f"format={name}: {package} is not installed: pip install 'gedbd[export]'")
    return FORMATS[name]
