"""The text branch: any Hugging Face encoder, pooled and projected."""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from gedbd.encoders import packing
from gedbd.encoders.packing import can_pack, first_tokens, pack, position_offset, unpack
from gedbd.encoders.tiny import tiny_backbone, tiny_tokenizer
from gedbd.io.checksums import check_whole
from gedbd.text.tokens import split_by_tokens

EVERYTHING = torch.ones(1, 1, 1, 1, dtype=torch.bool)


class TextEncoder(nn.Module):
    """z_text = W_p pool(backbone(x)) + b_p.

    The projection to ``dim`` is the paper's; it starts with orthonormal rows (ours), so that what the pretrained
    encoder knows about similarity survives it.

    Args:
        backbone: A pretrained encoder that returns ``last_hidden_state``.
        pooling: ``cls`` takes the first token (the paper), ``mean`` averages the tokens that are not padding.
        dim: Size D of the projection.

    Attributes:
        chunk_tokens: If set, more tokens than this are never held for the gradient at once: they are encoded in chunks,
            which are computed again when their gradient is asked for. That is gradient caching (Gao et al., "Scaling
            Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021), by means of checkpoints.
    """

    def __init__(self, backbone: PreTrainedModel, pooling: str, dim: int) -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f"encoder.pooling={pooling} is unknown: choose cls or mean")
        self.backbone = backbone
        self.pooling = pooling
        self.chunk_tokens: int | None = None
        if can_pack(backbone):
            backbone.set_attn_implementation(packing.NAME)
        self.projection = nn.Linear(int(backbone.config.hidden_size), dim)
        nn.init.orthogonal_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def pool(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One vector a report before the projection: ``(U, L), (U, L) -> (U, hidden)`` float32.

        Padding is left out where the architecture allows it.
        """
        if self.backbone.config._attn_implementation != packing.NAME:
            return self._pool_padded(input_ids, attention_mask)
        packed = pack(input_ids, attention_mask)
        hidden: Tensor = self.backbone(
            input_ids=packed.tokens[None],
            position_ids=packed.positions[None] + position_offset(self.backbone),
            attention_mask=EVERYTHING.to(input_ids.device),
            buckets=packed.buckets,
        ).last_hidden_state[0]
        return (first_tokens if self.pooling == "cls" else unpack)(packed, hidden.float())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """``(U, L), (U, L) -> (U, D)``."""
        if self.chunk_tokens is None or not torch.is_grad_enabled():
            return self._embed(input_ids, attention_mask)
        lengths, order = attention_mask.sum(1).sort(stable=True)
        vectors = []
        for first, last in split_by_tokens(lengths.tolist(), self.chunk_tokens):
            rows, longest = order[first:last], int(lengths[last - 1])
            chunk = input_ids[rows, :longest], attention_mask[rows, :longest]
            vectors.append(checkpoint(self._embed, *chunk, use_reentrant=False))
        return torch.cat(vectors)[order.argsort()]

    def _embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        projected: Tensor = self.projection(self.pool(input_ids, attention_mask))
        return projected.float()

    def _pool_padded(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def load_encoder(
    name: str,
    model: str,
    pooling: str,
    dim: int,
    max_tokens: int,
    package: str | None = None,
    sha256: str | None = None,
    fine_tuning: Mapping[str, float] | None = None,
) -> tuple[TextEncoder, PreTrainedTokenizerBase]:
    """Loads pretrained weights from the hub, a folder, or an installed package that carries them.

    Args:
        name: Short name, for messages.
        model: Name on the Hugging Face hub, or a folder.
        pooling: See ``TextEncoder``.
        dim: See ``TextEncoder``.
        max_tokens: Length that texts will be cut to; must not pass what the model was built for.
        package: Python package that carries the same files, used instead of the hub where it is installed.
        sha256: What that package's ``model.safetensors`` must hash to.
        fine_tuning: Not read here: defaults of training options (``optimizer.lr`` and others) for encoders of its size.

    Raises:
        ValueError: If the weights cannot be had, are not the expected ones, or are too short for ``max_tokens``.
    """
    source = _packaged(package, sha256) or model
    try:
        backbone = AutoModel.from_pretrained(source, trust_remote_code=False)  # else it would ask on the terminal
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"encoder={name}: cannot load {source}: {str(error).splitlines()[0]} Without access to the hub, download it"
            " elsewhere and say encoder.model=<folder>."
        ) from error
    if hasattr(backbone, "pooler"):
        backbone.pooler = None
    longest = _longest(backbone)
    if longest is not None and max_tokens > longest:
        raise ValueError(f"encoder.max_tokens={max_tokens} is more than the {longest} that {source} was built for")
    return TextEncoder(backbone, pooling, dim), tokenizer


def load_weights(encoder: TextEncoder, checkpoint: str | Path | BinaryIO) -> None:
    """Gives an encoder the text branch's weights of a run's checkpoint.

    Raises:
        ValueError: If the checkpoint is damaged, or holds no weights, or those of another model.
    """
    if isinstance(checkpoint, str | Path):
        check_whole(Path(checkpoint))
    state = read_state(checkpoint)
    mine = {key.removeprefix("encoder."): value for key, value in state.items() if key.startswith("encoder.")}
    load_state(encoder, mine, _name_of(checkpoint))


def read_state(checkpoint: str | Path | BinaryIO) -> dict[str, Any]:
    """The weights in a checkpoint, by name. Raises ValueError if it holds none."""
    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except (EOFError, RuntimeError, UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{_name_of(checkpoint)} is damaged: no weights can be read from it ({reason})") from error
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise ValueError(f"{_name_of(checkpoint)} is damaged: it holds no weights")
    return state


def load_state(module: nn.Module, state: dict[str, Any], source: str) -> None:
    """Gives a module its weights. Raises ValueError, naming their source, if they are those of another model."""
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split()[:40])
        raise ValueError(f"{source} holds the weights of another model than its settings describe: {reason}") from error


def _name_of(checkpoint: str | Path | BinaryIO) -> str:
    return str(checkpoint) if isinstance(checkpoint, str | Path) else "the stored checkpoint"


def load_tiny_encoder(
    name: str, pooling: str, dim: int, max_tokens: int, hidden: int, layers: int, dropout: float, seed: int
) -> tuple[TextEncoder, PreTrainedTokenizerBase]:
    """A tiny random BERT behind the same command as ``load_encoder``; see ``gedbd.encoders.tiny``."""
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(hidden, layers, dropout, seed, len(tokenizer))
    if max_tokens > backbone.config.max_position_embeddings:
        raise ValueError(f"encoder={name} reads at most {backbone.config.max_position_embeddings} tokens")
    return TextEncoder(backbone, pooling, dim), tokenizer


def fingerprint(module: nn.Module) -> str:
    """A hash of all weights, by which cached vectors are keyed."""
    digest = hashlib.blake2b(digest_size=16)
    for key, value in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _longest(backbone: PreTrainedModel) -> int | None:
    """Tokens that a backbone has positions for, if limited. RoBERTa's relatives count from ``padding_idx + 1``."""
    most: int | None = getattr(backbone.config, "max_position_embeddings", None)
    positions = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    padding: int | None = getattr(positions, "padding_idx", None)
    return most if most is None or padding is None else most - padding - 1


def _packaged(package: str | None, sha256: str | None) -> str | None:
    """Folder of the weights inside an installed package, once their hash is verified; the package is not imported."""
    if package and not package.isidentifier():
        raise ValueError(f"encoder.package={package} is no package's name")  # find_spec imports what is before a dot
    spec = find_spec(package) if package else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ValueError(f"package {package} carries no weights at {weights}: reinstall or uninstall it")
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(
            f"the weights in package {package} hash to {found}, not to {sha256}: reinstall or uninstall it"
        )
    return str(folder)
