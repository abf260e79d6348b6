"""Vectors of variables, methods and queries from an encoder of code."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel

from gedbd.code.flow_graph import FlowGraph
from gedbd.encoders.code.batches import CodeBatch, collate
from gedbd.encoders.code.encoder import CodeEncoder, SavedEncoder
from gedbd.encoders.code.inputs import CODE_BLOCK, CodeInput, InputParts, make_input, tokenize, tokens_of_nodes
from gedbd.io.console import track
from gedbd.text.tokens import split_by_tokens, token_budget

TEXT_ALONE = InputParts(nodes=False, types=False, roles=False)


class ProbedEncoder:
    """An encoder with its tokenizer, frozen or to be trained further.

    Args:
        saved: What its folder holds.
        bf16: Compute in bfloat16 where PyTorch's autocast does; vectors are float32 all the same.
        device: Where it computes.
    """

    def __init__(self, saved: SavedEncoder, bf16: bool, device: torch.device) -> None:
        self.saved = saved
        self.bf16 = bf16
        self.device = device
        self.saved.encoder.to(device).eval()

    @property
    def reads_graphs(self) -> bool:
        """Whether it was trained on methods with the nodes of their flow graphs."""
        return self.saved.parts.nodes

    @property
    def size(self) -> tuple[int, int]:
        """Its number of layers and of units in a layer."""
        config = self.saved.encoder.backbone.config
        return int(config.num_hidden_layers), int(config.hidden_size)

    def forward(self, batch: CodeBatch) -> Tensor:
        """Vectors of all tokens, ``(B, L, H)`` float32."""
        moved = on_device(batch, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            hidden: Tensor = self.saved.encoder(moved)
        return hidden.float()

    def pooled(self, batch: CodeBatch, block: str) -> Tensor:
        """The mean of the vectors of a block, ``(B, H)``; 0 where it is empty."""
        inside = on_device(batch, self.device).inside(block)[..., None]
        hidden = self.forward(batch)
        return (hidden * inside).sum(1) / inside.sum(1).clamp(min=1)

    def code_input(self, code: str, graph: FlowGraph | None) -> CodeInput:
        """A method without its comment; without a graph, the code alone."""
        parts = TEXT_ALONE if graph is None else self.saved.parts
        return make_input(self.saved.tokenizer, code, "", graph, self.saved.limits, parts)

    def query_input(self, query: str) -> CodeInput:
        """A query as a comment without a method."""
        return make_input(self.saved.tokenizer, "", query, None, self.saved.limits, TEXT_ALONE)

    def vectors(self, inputs: Sequence[CodeInput], block: str, title: str) -> np.ndarray:
        """The mean vector of a block of each input, ``(N, H)`` float32."""
        found = np.zeros((len(inputs), self.size[1]), dtype=np.float32)
        for rows, batch in self._batches(inputs, title):
            with torch.inference_mode():
                found[rows] = self.pooled(batch, block).cpu().numpy()
        return found

    def variable_vectors(self, codes: Sequence[str], method: np.ndarray, spans: np.ndarray, title: str) -> np.ndarray:
        """The mean vector of the tokens of each variable, read from the code alone, ``(V, H)`` float32.

        Args:
            codes: M methods.
            method: ``(V,)`` method of each variable, ascending.
            spans: ``(V, 2)`` first and last (exclusive) character of each variable; see ``visible_characters``.
            title: What the progress bar says.
        """
        inputs = [self.code_input(code, None) for code in codes]
        found = np.zeros((len(method), self.size[1]), dtype=np.float32)
        for rows, batch in self._batches(inputs, title):
            with torch.inference_mode():
                hidden = self.forward(batch).cpu()
            for place, row in enumerate(rows.tolist()):
                # Variables are sorted by method: those of method 1 in 0 0 1 1 2 are rows 2 and 3.
                first, last = np.searchsorted(method, [row, row + 1])
                token, variable = tokens_of_nodes(self._offsets(codes[row]), spans[first:last])
                of_tokens = hidden[place, torch.from_numpy(token + inputs[row].blocks[CODE_BLOCK, 0])].numpy()
                np.add.at(found, first + variable, of_tokens)
                found[first:last] /= np.maximum(np.bincount(variable, minlength=last - first), 1)[:, None]
        return found

    def visible_characters(self, codes: Sequence[str]) -> np.ndarray:
        """How many characters of each method it reads before the code is cut, ``(N,)``."""
        ends = [self._offsets(code) for code in codes]
        return np.array([offsets[-1, 1] if len(offsets) else 0 for offsets in ends], dtype=np.int64)

    def _offsets(self, code: str) -> np.ndarray:
        """First and last (exclusive) character of each token that is read, ``(S, 2)``."""
        _, offsets = tokenize(self.saved.tokenizer, code)
        return offsets[: self.saved.limits.code_tokens]

    def _batches(self, inputs: Sequence[CodeInput], title: str) -> Iterator[tuple[np.ndarray, CodeBatch]]:
        """Rows and batches of similar length."""
        lengths = np.array([len(one) for one in inputs])
        order = np.argsort(lengths, kind="stable")
        runs = split_by_tokens(lengths[order].tolist(), token_budget(self.device))
        for first, last in track(runs, title, transient=True):
            rows = order[first:last]
            yield rows, collate([inputs[row] for row in rows])


def untrained_copy(saved: SavedEncoder, seed: int) -> SavedEncoder:
    """The same architecture, size, tokenizer and inputs with random weights; leaves other random numbers alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(saved.encoder.backbone.config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    if hasattr(backbone, "pooler"):
        backbone.pooler = None
    return saved._replace(encoder=CodeEncoder(backbone))


def on_device(batch: CodeBatch, device: torch.device) -> CodeBatch:
    """The batch with all its tensors on a device."""
    tensors = {name: getattr(batch, name).to(device) for name in ("n_id", "input_ids", "lengths", "blocks")}
    edges = type(batch.edges)(*(edge.to(device) for edge in batch.edges))
    return CodeBatch(**tensors, edges=edges)
