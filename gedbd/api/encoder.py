"""Encodes texts as vectors: ``gedbd.Encoder``."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np
from omegaconf import DictConfig, OmegaConf

from gedbd.api.calls import choices, long_call, plain_errors
from gedbd.configuration.command_words import path_value
from gedbd.configuration.encoder_options import encoder_word
from gedbd.configuration.options import compose_options
from gedbd.encoders.given_encoder import GivenEncoder, TextEncoding
from gedbd.experiments.run_folder import CONFIG

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder

UNUSED = ("out=unused.npz", "dataset=demo")  # which ``gedbd encode`` requires
AnyEncoder = Union["Encoder", str, Path, TextEncoding]


class Encoder:
    """Encodes texts as unit vectors.

    The model is loaded at first use. Vectors of documents are cached in the commands' folder, ``$GEDBD_CACHE`` or
    ``~/.cache/gedbd``; those of queries and of Python objects are not.

    Args:
        model: One of

            - the name of a file in ``conf/encoder/``, such as ``minilm``, which is part of the installation, or
              ``tiny``, a small random model for tests;
            - a folder with a model of transformers or sentence-transformers, or its name on the Hugging Face hub, such
              as ``BAAI/bge-small-en-v1.5``;
            - the folder of a training run of gedbd;
            - an object with ``encode(texts) -> (N, D)``, such as a ``SentenceTransformer``, which is not modified.
        backend: Name of a file in ``conf/backend/``; ``auto`` chooses the fastest on this machine.
        max_tokens: Maximum number of tokens per text; None for that of the name, or the model's own.
        cache_dir: Folder of cached vectors; None for the commands' folder.
        checkpoint: Checkpoint of a run: ``best``, ``last``, or ``refit``.

    Attributes:
        name: Short name of the model.

    Raises:
        ValueError: If the model is unknown, or an option does not apply to it.

    Example:
        >>> import gedbd
        >>> encoder = gedbd.Encoder("tiny")
        >>> vectors = encoder.encode(["Crash on paste", "Printing is slow"])
        >>> vectors.shape
        (2, 32)
    """

    def __init__(
        self,
        model: AnyEncoder = "minilm",
        *,
        backend: str = "auto",
        max_tokens: int | None = None,
        cache_dir: str | Path | None = None,
        checkpoint: str = "best",
    ) -> None:
        self._given: GivenEncoder | None = None
        self._run: Path | None = None
        self._weights: Path | None = None
        self._checkpoint = checkpoint
        preset = str(model) if isinstance(model, str | Path) and str(model) in choices("encoder") else None
        with plain_errors():
            words = [*UNUSED, f"encoder={preset or 'minilm'}", f"backend={backend}"]
            cfg = compose_options("encode", words)
            cfg.cache_dir = str(cache_dir or cfg.cache_dir)
            options = OmegaConf.to_container(OmegaConf.masked_copy(cfg, ["encoder", "text", "backend", "cache_dir"]))
            plain: Any = OmegaConf.to_container(OmegaConf.create(options), resolve=True)
            self._options: dict[str, Any] = plain
            if preset is None:
                self._find_model(model, checkpoint)
            if max_tokens is not None:
                if self._given is not None:
                    raise ValueError(
                        f"max_tokens does not apply to {self._given.name}, which truncates its texts itself"
                    )
                self._options["encoder"]["max_tokens"] = max_tokens
        self.name: str = self._options["encoder"]["name"] if self._given is None else self._given.name

    def __repr__(self) -> str:
        return f"Encoder({self.name!r})"

    @property
    def dim(self) -> int:
        """Size D of the vectors."""
        with plain_errors():
            return self._loaded.dim

    def encode(self, texts: Sequence[str], kind: Literal["document", "query"] = "document") -> np.ndarray:
        """Encodes N texts as vectors.

        Args:
            texts: N texts.
            kind: ``document``, for many texts, uses the cache and sorts texts by length; ``query`` is for a few. The
                vectors are equal up to rounding.

        Returns:
            ``(N, D)`` float32 unit rows.

        Raises:
            ValueError: If ``texts`` is a single text, or the model cannot be loaded.
        """
        if isinstance(texts, str):
            raise ValueError("texts is a single text: give a list of texts")
        if kind not in ("document", "query"):
            raise ValueError(f"kind={kind!r} is unknown: choose document or query")
        with long_call():
            if not len(texts):
                return np.empty((0, self._loaded.dim), dtype=np.float32)
            return self._loaded.encode(list(texts), kind)

    @cached_property
    def _loaded(self) -> "LoadedEncoder | GivenEncoder":
        """The encoder with its weights."""
        if self._given is not None:
            return self._given
        from hydra.utils import instantiate

        from gedbd.io.console import silence_library_logs

        silence_library_logs()
        options = OmegaConf.create(self._options)
        backend = instantiate(options.backend)
        encoder: LoadedEncoder = instantiate(options.encoder, backend=backend, cache_dir=options.cache_dir)
        if self._weights is not None:
            encoder.load_weights(self._weights)
        return encoder

    def _find_model(self, model: AnyEncoder, checkpoint: str) -> None:
        """Finds a model that is not a file of ``conf/encoder``: an object, a run or a folder."""
        if not isinstance(model, str | Path):
            if isinstance(model, Encoder) or not isinstance(model, TextEncoding):
                raise ValueError(
                    f"{type(model).__name__} is not an encoder: give a name, a folder, or an object with encode()"
                )
            self._given = GivenEncoder(model)
        elif (Path(model) / CONFIG).is_file():
            from gedbd.experiments.run_folder import find_run

            saved, self._weights = find_run(Path(model), checkpoint)
            self._run = Path(model)
            self._options["encoder"] = OmegaConf.to_container(saved.encoder)
            self._options["text"] = OmegaConf.to_container(saved.text)
        elif Path(model).is_dir() or str(model).count("/") == 1:
            words = [*UNUSED, encoder_word(model), f"encoder.name={path_value(Path(model).name)}"]
            self._options["encoder"] = OmegaConf.to_container(compose_options("encode", words).encoder, resolve=True)
        else:
            raise ValueError(
                f"encoder {str(model)!r} is neither a folder, nor OWNER/NAME on the Hugging Face hub, nor one of"
                f" {', '.join(choices('encoder'))}"
            )

    def _put_into(self, cfg: DictConfig) -> None:
        """Sets the sections encoder, text and backend, and the cache folder, of a command's options."""
        for name, value in self._options.items():
            cfg[name] = value
        if self._given is not None:
            cfg.encoder = self._given.settings


def as_encoder(encoder: AnyEncoder) -> Encoder:
    """Returns an ``Encoder`` unchanged, and constructs one from any other argument."""
    return encoder if isinstance(encoder, Encoder) else Encoder(encoder)
