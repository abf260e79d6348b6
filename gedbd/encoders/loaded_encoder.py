"""Texts to vectors: one object with the weights, tokenizer, prefix, maximum length, backend and cache."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backend import Backend, PreparedBackend, Torch, encode_batches, encode_texts
from gedbd.encoders.caches import cached_tokens
from gedbd.encoders.encoder_weights import encoder_state, fingerprint, load_state, source_name
from gedbd.encoders.model_files import packaged_weights
from gedbd.encoders.model_options import encoder_option
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.files import cache_folder
from gedbd.text.tokens import TokenTable, tokenize

CALIBRATION_TEXTS = 300
QUERIES_AT_ONCE = 64


class LoadedEncoder:
    """Encodes texts as vectors.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        max_tokens: Maximum number of tokens of a text, including the prefix.
        backend: Runs the model, by default PyTorch.
        cache_dir: Folder of cached document vectors, created if absent; None for no cache.
        prefix: Prepended to each text, of documents and queries.

    Attributes:
        prefix_tokens: Number of tokens of the prefix.
        is_trained: Whether the projection was trained, here or before an export. Only then are vectors projected.
        calibration: Texts to calibrate the backend on; None for a sample of the texts to encode.
    """

    def __init__(
        self,
        model: TextEncoder,
        tokenizer: PreTrainedTokenizerBase,
        max_tokens: int,
        backend: Backend | None = None,
        cache_dir: str | Path | None = None,
        prefix: str | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.backend = backend or Torch()
        self.cache_dir = cache_dir
        self.prefix = prefix or ""
        # The trailing space belongs to the first word of the text.
        self.prefix_tokens = len(tokenizer.tokenize(self.prefix.rstrip())) if self.prefix else 0
        if self.prefix and self.text_tokens <= tokenizer.num_special_tokens_to_add():
            raise ValueError(
                f"encoder.prefix={self.prefix!r} takes {self.prefix_tokens} of {max_tokens} tokens and leaves none"
                " for the text: shorten it, or raise encoder.max_tokens (of titles: graph.max_title_tokens)"
            )
        self.is_trained = False
        self.calibration: list[str] | None = None
        self._prepared: PreparedBackend | None = None

    @property
    def dim(self) -> int:
        """The size D of the vectors of ``encode``."""
        return self.model.projection.out_features if self.is_trained else self.model.features

    @property
    def text_tokens(self) -> int:
        """Maximum number of tokens of a text, with special tokens, without the prefix."""
        return self.max_tokens - self.prefix_tokens

    def load_weights(self, checkpoint: str | Path | BinaryIO) -> None:
        """Loads the text encoder from the checkpoint of a run.

        Raises:
            ValueError: If the checkpoint is damaged, or has no weights or those of another model.
        """
        load_state(self.model, encoder_state(checkpoint), source_name(checkpoint))
        self.is_trained = True
        self._prepared = None  # may contain a copy of the old weights

    def load_projection(self, weight: Tensor, bias: Tensor, model: str) -> None:
        """Loads the projection of a model, ``(D, hidden)`` and ``(D,)``.

        Raises:
            ValueError: If the encoder's vectors or its projection have other sizes.
        """
        projection = self.model.projection
        # An export has zeros where its encoder did not use a dimension.
        if projection.out_features != len(weight) or weight[:, projection.in_features :].any():
            needed = f"{encoder_option('dim', len(weight))} {encoder_option('truncate_dim', None)}"
            raise ValueError(f"encoder.model={model} has a projection of other sizes: set {needed}")
        with torch.no_grad():
            projection.weight.copy_(weight[:, : projection.in_features])
            projection.bias.copy_(bias)
        self.is_trained = True

    def tokenize(self, texts: list[str], cache_dir: str | Path | None = None) -> TokenTable:
        """Tokenizes texts with the prefix, truncated to ``max_tokens``; ``cache_dir`` enables the cache."""
        if self.prefix:
            texts = [self.prefix + text for text in texts]
        if cache_dir is None:
            return tokenize(texts, self.tokenizer, self.max_tokens)
        return cached_tokens(texts, self.tokenizer, self.max_tokens, cache_dir)

    def prepare(self) -> PreparedBackend:
        """Prepares the backend for queries, once, with the current weights."""
        if self._prepared is None:
            self._prepared = self._prepare(self.calibration)
        return self._prepared

    def encode(
        self, texts: list[str], kind: Literal["document", "query"] = "document", label: str = "encode reports"
    ) -> np.ndarray:
        """Encodes texts as unit vectors.

        Args:
            texts: N texts.
            kind: ``document`` uses the cache and sorts texts by length, for a whole corpus; ``query`` does neither,
                for a few texts.
            label: Label of the progress bar of documents.

        Returns:
            ``(N, D)`` float32 unit rows; zero vectors stay zero.
        """
        if kind == "document":
            vectors = self.pool(texts, label)
        else:
            prepared = self.prepare()
            pooled: list[np.ndarray] = []
            for start in range(0, len(texts), QUERIES_AT_ONCE):
                tokens = self.tokenize(texts[start : start + QUERIES_AT_ONCE])
                pooled.extend(prepared.encode([tokens.batch(np.arange(len(tokens.lengths)))]))
            vectors = np.concatenate(pooled)[:, : self.model.features]
        return unit_rows(self.project(vectors) if self.is_trained else vectors)

    def pool(self, texts: list[str], label: str = "encode reports", tokens: TokenTable | None = None) -> np.ndarray:
        """Pooled vectors of documents before the projection, ``(N, features)`` float32.

        ``tokens`` are the tokens of the texts if they are known.
        """
        from gedbd.encoders.caches import cached_vectors

        # The folder is checked before the backend is prepared, which may take minutes.
        folder = None if self.cache_dir is None else cache_folder(self.cache_dir)
        prepared = self._prepare(self.calibration or calibration_texts(texts))
        if folder is None:
            return encode_texts(tokens or self.tokenize(texts), prepared, label)[:, : self.model.features]

        def encode_rows(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            missing = tokens.of_rows(rows) if tokens else self.tokenize([texts[row] for row in rows])
            return encode_batches(missing, prepared, label, once=True)

        # PyTorch has an empty key, so that backends with equal vectors share a file.
        prefix = hashlib.blake2b(self.prefix.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        parts = [fingerprint(self.model.backbone), self.model.pooling, str(self.max_tokens)]
        parts += [prefix if self.prefix else "", prepared.key]
        file = folder / f"{'-'.join(filter(None, parts))}.sqlite"
        # The full vectors are stored, from which every truncated size is read.
        return cached_vectors(file, self.model.hidden, texts, encode_rows)[:, : self.model.features]

    def project(self, vectors: np.ndarray) -> np.ndarray:
        """Applies the projection: ``(N, features) -> (N, dim)`` float32."""
        with torch.no_grad():
            projection = self.model.projection
            projected: np.ndarray = projection(torch.from_numpy(vectors).to(projection.weight.device)).cpu().numpy()
        return projected

    def _prepare(self, calibration: list[str] | None) -> PreparedBackend:
        # Only calibrated backends read the sample.
        sample = self.tokenize(calibration) if self.backend.calibrated and calibration else None
        return self.backend.prepare(self.model, sample)


def load_encoder(
    name: str,
    model: str,
    pooling: str,
    dim: int,
    max_tokens: int | None,
    package: str | None = None,
    packaged_model: str | None = None,
    sha256: str | None = None,
    fine_tuning: Mapping[str, float] | None = None,
    backend: Backend | None = None,
    cache_dir: str | Path | None = None,
    prefix: str | None = None,
    truncate_dim: int | None = None,
    matryoshka_dims: Sequence[int] = (),
    adapter: str | None = None,
    adapter_sha256: str | None = None,
    without: str | None = None,
) -> LoadedEncoder:
    """Loads pretrained weights from the hub, a folder or an installed package.

    A model of sentence-transformers is loaded with its projection, the module Dense.

    Args:
        name: Short name, for messages.
        model: Name on the Hugging Face hub, or a folder.
        pooling: See ``TextEncoder``.
        dim: See ``TextEncoder``.
        max_tokens: Maximum number of tokens of a text, including the prefix; at most that of the model. None for the
            model's own.
        package: Python package with the same files, used instead of the hub if it is installed.
        packaged_model: The model in the package; the package is not used for another ``model``. None for any model.
        sha256: Expected hash of the package's ``model.safetensors``.
        fine_tuning: Ignored; the configuration reads defaults of training options from it, such as ``optimizer.lr``.
        backend: See ``LoadedEncoder``.
        cache_dir: See ``LoadedEncoder``.
        prefix: See ``LoadedEncoder``.
        truncate_dim: See ``TextEncoder``.
        matryoshka_dims: Sizes that the model was trained to be truncated to.
        adapter: A file that lists adapters, one of which is added to the weights, see ``AdapterList``; None for none.
        adapter_sha256: Expected hash of that file.
        without: The tracker that the adapter was not trained on; None for the adapter that was trained on all.

    Raises:
        ValueError: If the weights are missing or unexpected, or the model contradicts an option.
    """
    from gedbd.encoders.adapter_list import AdapterList
    from gedbd.encoders.pretrained import load_pretrained

    check_prefix(prefix)
    if truncate_dim is not None and truncate_dim not in matryoshka_dims:
        sizes = " and ".join(str(size) for size in matryoshka_dims)
        raise ValueError(
            f"encoder.truncate_dim={truncate_dim}: encoder.matryoshka_dims, the sizes that {name} was trained for, are"
            f" {sizes or 'none'}: choose one of them, or null for whole vectors"
        )
    # The package of a preset contains one model only.
    chosen_package = package if packaged_model in {None, model} else None
    packaged = packaged_weights(chosen_package, sha256)
    backbone, tokenizer, length, projection = load_pretrained(name, packaged or model, max_tokens)
    if adapter is not None:
        listed = AdapterList.read(adapter, adapter_sha256)
        listed.add_to(backbone, without, model, sha256 if packaged else None)
    elif without is not None:
        raise ValueError(f"encoder.without={without} chooses an adapter, and encoder={name} has none: leave it out")
    text_encoder = TextEncoder(backbone, pooling, dim, truncate_dim)
    encoder = LoadedEncoder(text_encoder, tokenizer, length, backend, cache_dir, prefix)
    if projection is not None:
        encoder.load_projection(*projection, model)
    return encoder


def load_tiny_encoder(
    name: str,
    pooling: str,
    dim: int,
    max_tokens: int,
    hidden: int,
    layers: int,
    dropout: float,
    seed: int,
    backend: Backend | None = None,
    cache_dir: str | Path | None = None,
    prefix: str | None = None,
) -> LoadedEncoder:
    """Builds an encoder from a tiny random BERT; for the arguments see ``load_encoder`` and ``tiny_backbone``."""
    from gedbd.encoders.pretrained import tiny_backbone, tiny_tokenizer

    check_prefix(prefix)
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(hidden, layers, dropout, seed, len(tokenizer))
    if max_tokens > backbone.config.max_position_embeddings:
        raise ValueError(
            f"encoder={name} reads at most {backbone.config.max_position_embeddings} tokens: lower max_tokens"
        )
    return LoadedEncoder(TextEncoder(backbone, pooling, dim), tokenizer, max_tokens, backend, cache_dir, prefix)


def check_prefix(prefix: object) -> None:
    """Raises ValueError if a prefix is not a string."""
    if prefix is not None and not isinstance(prefix, str):
        raise ValueError(f"encoder.prefix={prefix} must be a string: write it in quotes, \"encoder.prefix='query: '\"")


def calibration_texts(texts: list[str]) -> list[str]:
    """A deterministic random sample of the texts to calibrate a backend on."""
    count = min(len(texts), CALIBRATION_TEXTS)
    rows = np.random.default_rng(0).choice(len(texts), count, replace=False)
    return [texts[row] for row in np.sort(rows)]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Scales rows to length 1; zero rows stay zero."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))
