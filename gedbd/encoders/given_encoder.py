"""An encoder that the user of the Python API passes: any object that encodes texts as vectors."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

import numpy as np

TARGET = "gedbd.encoders.given_encoder.refuse_given"
PROBE = "Crash when I paste a picture into a mail"
PROBE_NUMBERS = 8  # of the probe's vector; they are stored
PROBE_TOLERANCE = 0.02  # other hardware and batch sizes round differently, other encoders differ by more


@runtime_checkable
class TextEncoding(Protocol):
    """An object that encodes N texts as vectors, ``(N, D)``, such as a model of sentence-transformers."""

    def encode(self, sentences: list[str], /) -> Any:
        """Vectors of N texts: an array, or an object that ``numpy.asarray`` converts to one."""
        ...


class GivenEncoder:
    """Encodes by an object with ``encode``. It has no weights that could be stored, and no cache.

    Args:
        given: The object.

    Attributes:
        name: The name of its class, for messages and stored settings.
    """

    text_tokens = 0  # the object cuts texts itself; text templates with budgets are refused

    def __init__(self, given: TextEncoding) -> None:
        self.given = given
        self.name = type(given).__name__
        self.tokenizer: Any = SimpleNamespace(is_fast=False, name_or_path=self.name)
        # Attributes that other code sets on encoders; they have no effect here.
        self.backend: Any = SimpleNamespace(calibrated=False)
        self.cache_dir: Any = None
        self.calibration: list[str] | None = None
        self.is_trained = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "GivenEncoder":
        # Hydra copies configurations, but must not copy the model.
        return self

    @property
    def model(self) -> Any:
        """Raises ValueError: there is no model of gedbd."""
        raise ValueError(
            f"the encoder {self.name} is an object that only has encode(): this scorer needs an encoder by its name, or"
            " the folder of one"
        )

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings stored instead of the object, to recognize it: its name, and the beginning of one vector."""
        probe = self.encode([PROBE])[0]
        numbers = [round(float(number), 3) for number in probe[:PROBE_NUMBERS]]
        return {"_target_": TARGET, "name": self.name, "dim": len(probe), "probe": numbers}

    @property
    def dim(self) -> int:
        """Size D of the vectors."""
        return int(self.settings["dim"])

    def encode(
        self, texts: Sequence[str], kind: Literal["document", "query"] = "document", label: str = ""
    ) -> np.ndarray:
        """Vectors of N texts, ``(N, D)`` float32 unit rows; documents and queries alike.

        Raises:
            ValueError: If the object does not return N rows of numbers.
        """
        vectors = np.asarray(self.given.encode(list(texts)))
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.issubdtype(vectors.dtype, np.number):
            raise ValueError(
                f"{self.name}.encode() returned an array of shape {vectors.shape} and type {vectors.dtype} for"
                f" {len(texts)} texts: it must return an array of shape ({len(texts)}, D)"
            )
        vectors = vectors.astype(np.float32)
        if not np.isfinite(vectors).all():
            raise ValueError(f"{self.name}.encode() returned numbers that are not finite")
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))

    def prepare(self) -> None:
        """Does nothing: the object is ready."""

    def check(self, stored: Mapping[str, Any], source: str) -> None:
        """Compares the object with the one whose settings are stored.

        Raises:
            ValueError: If its vectors differ.
        """
        settings = self.settings
        probe = list(stored.get("probe", ()))
        is_same = settings["dim"] == stored.get("dim") and len(probe) == len(settings["probe"])
        if not is_same or not np.allclose(probe, settings["probe"], atol=PROBE_TOLERANCE):
            raise ValueError(
                f"{source} was encoded by another encoder, {stored.get('name')} of {stored.get('dim')} numbers: give"
                " that one, or build the index again"
            )


def is_given(settings: Mapping[str, Any]) -> bool:
    """Whether the settings of an encoder are those of an object in Python."""
    return settings.get("_target_") == TARGET


def refuse_given(name: str, **_: Any) -> NoReturn:
    """Raises ValueError: commands cannot create an encoder that was an object in Python."""
    raise ValueError(
        f"the encoder {name} was an object in Python, which a command cannot make: use gedbd.Index.open(..., encoder=)"
        " there, or build with an encoder by its name"
    )
