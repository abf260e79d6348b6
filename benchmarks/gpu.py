"""BERT base on one GPU: sequences a second, share of peak, and an epoch the size of the paper's Eclipse corpus.

Weights and text are random, which does not change the work. ``make bench SECTIONS=gpu`` runs it where there is a GPU.

``python benchmarks/gpu.py`` prints rows of ``gpu_costs.csv``, which ``estimate.py`` reads: seconds
and bytes a token by encoder and precision. On a GPU it measures them. Without one, it calculates them for an A100: the
time from arithmetic and an assumed share of the peak, the bytes by what a forward pass on the CPU keeps.
"""

import csv
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from measure import Row, repeated, seconds, take_turns
from prepared_data import attach
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import normalize
from torch.optim import Optimizer
from transformers import AutoConfig, AutoModel

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.bug_reports import Batch, BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.graph.adjacency import DenseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch, WeightedSum
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.experiments.distributed import layers_of
from gedbd.experiments.optimizers import adamw, constant
from gedbd.experiments.prepare import PreparedData
from gedbd.losses import CosineEmbeddingLoss
from gedbd.sampling.group_batches import GroupBatches
from gedbd.text.tokens import TokenTable

SECTION, REPEATS, BATCH, DIM = "GPU", 5, 128, 128
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
# Of an A100, in TFLOP/s by its data sheet, and the share of it that is assumed. NVIDIA's BERT large reaches .47 (TF32)
# and .53 (mixed precision) at 128 tokens: DeepLearningExamples, PaddlePaddle/LanguageModeling/BERT/README.md.
A100 = {"float32": (19.5, 0.6), "tf32": (156.0, 0.4), "bfloat16": (312.0, 0.4)}
# Architectures, and the sizes in which the published weights differ from their defaults.
ROBERTA = {"vocab_size": 50_265, "max_position_embeddings": 514, "type_vocab_size": 1}
ENCODERS: dict[str, tuple[str, dict[str, int]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", ROBERTA),
    "distilbert": ("distilbert", {}),
    "codebert": ("roberta", ROBERTA),
    "minilm": ("bert", {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}),
}
COST_TOKENS = 256
GROUPS, REPORTS, NEGATIVES = 6_282, 17_518, 24_000
# Deciles of the token numbers of 2,000 of xamarin's reports, cut to 512.
LENGTHS = (3, 55, 86, 116, 154, 207, 283, 435, 512, 512, 512)


def main() -> list[Row]:
    """Measures; without a GPU there is nothing to measure."""
    if not torch.cuda.is_available():
        raise SystemExit("the section gpu needs a GPU, and torch finds none on this machine")
    name, rows = torch.cuda.get_device_name(), []
    for length in (128, 256, 512):
        data, system = assembled(np.full(4 * BATCH, length), np.arange(4 * BATCH) // 2, BATCH, "cuda")
        batch = next(iter(data.train_dataloader()))
        rates = len(batch.n_id) / take_turns({"step": partial(_step, system, batch)}, REPEATS)["step"]
        peak = next((value for key, value in PEAK_TFLOPS.items() if key in name), float("nan"))
        share = 6 * _layer_weights(system.encoder) * length * float(np.median(rates)) / (1e12 * peak)
        note = f"{name}, {share:.0%} of peak"
        rows.append(repeated(SECTION, f"training, {length} tokens", rates, "sequences/s", note=note))
    lengths = np.interp(np.random.default_rng(0).random(REPORTS), np.linspace(0, 1, len(LENGTHS)), LENGTHS).astype(int)
    group = np.sort(np.concatenate([np.repeat(np.arange(GROUPS), 2), np.arange(REPORTS - 2 * GROUPS) % GROUPS]))
    data, system = assembled(lengths, group, BATCH, "cuda")
    spent = seconds(lambda: deque(map(partial(_step, system), data.train_dataloader()), 0))
    return [*rows, Row(SECTION, "an epoch of Eclipse's size", spent, "s", note=f"{name}; paper: 1,086 s on an A100")]


def costs() -> Iterator[dict[str, object]]:
    """The rows of ``gpu_costs.csv`` for this GPU, or calculated ones for an A100."""
    has_gpu = torch.cuda.is_available()
    device, source = "A100", "calculated, not measured: shares of the peak are assumed, bytes counted on a CPU"
    if has_gpu:
        card = torch.cuda.get_device_name()
        device, source = next((key for key in PEAK_TFLOPS if key in card), card), f"measured, {card}, {date.today()}"
    for name in ENCODERS:
        encoder = _encoder(name, attention_dropout=has_gpu)
        row: dict[str, object] = {"device": device, "encoder": name}
        row["weights"] = sum(weight.numel() for weight in encoder.parameters())
        for precision, (peak, share) in A100.items():
            if has_gpu:
                taken, kept = measured_cost(name, precision)
            else:
                taken, kept = flops_per_token(encoder) / (1e12 * peak * share), 0
            row[f"{precision}_seconds"] = f"{taken:.3g}"
            if precision != "tf32":  # products alone are in TF32
                row[f"{precision}_bytes"] = kept or kept_per_token(encoder, precision)
        yield row | {"source": source}


def flops_per_token(encoder: TextEncoder) -> float:
    """Operations of a token forward and backward: 6 a weight of the layers, and those of attention."""
    config = encoder.backbone.config
    attention: float = 12 * config.num_hidden_layers * config.hidden_size * COST_TOKENS
    return 6 * _layer_weights(encoder) + attention


def kept_per_token(encoder: TextEncoder, precision: str) -> int:
    """Bytes a token keeps for the gradient: what autograd saves for a second text; attention keeps no weights."""

    def kept(texts: int) -> int:
        sizes: dict[int, int] = {}

        def remember(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        ids = torch.full((texts, COST_TOKENS), 1000)
        with saved_tensors_hooks(remember, lambda tensor: tensor), _autocast("cpu", precision):
            vectors = encoder(ids, torch.ones_like(ids))  # holds what was saved until all of it is counted
        assert vectors.requires_grad
        return sum(sizes.values())

    return round((kept(2) - kept(1)) / COST_TOKENS)


def measured_cost(name: str, precision: str) -> tuple[float, int]:
    """Seconds and bytes of a token on this GPU, the bytes by the peak of a full and of half a batch."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    peaks, tokens = [], []
    for size in (BATCH // 4, BATCH // 2):
        data, system = assembled(np.full(4 * size, COST_TOKENS), np.arange(4 * size) // 2, size, "cuda", name)
        batch = next(iter(data.train_dataloader()))
        _step(system, batch, precision)  # makes the states of AdamW
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        taken = take_turns({"step": partial(_step, system, batch, precision)}, REPEATS)["step"]
        peaks.append(torch.cuda.max_memory_allocated() - before)
        tokens.append(len(batch.n_id) * COST_TOKENS)
    return float(np.median(taken)) / tokens[1], round((peaks[1] - peaks[0]) / (tokens[1] - tokens[0]))


def _encoder(name: str, attention_dropout: bool = True) -> TextEncoder:
    """An untrained encoder of a published size."""
    architecture, sizes = ENCODERS[name]
    config = AutoConfig.for_model(architecture, **sizes)
    if not attention_dropout:  # a CPU has no kernel that keeps no weights of attention with it
        config.attention_probs_dropout_prob = config.attention_dropout = 0.0
    return TextEncoder(AutoModel.from_config(config).train(), "cls", DIM)


def _autocast(device: str, precision: str) -> torch.autocast | nullcontext[None]:
    return torch.autocast(device, dtype=torch.bfloat16) if precision == "bfloat16" else nullcontext()


def assembled(
    lengths: np.ndarray, group: np.ndarray, batch_size: int, device: str, name: str = "bert"
) -> tuple[BugReports, DuplicateDetector]:
    """Random text of given lengths in given groups, and an untrained encoder with the dense graph."""
    torch.manual_seed(0)
    count = len(lengths)
    reports = pd.DataFrame({"id": np.arange(count).astype(str), "title": "", "description": ""})
    starts = np.concatenate([[0], lengths.cumsum()])
    tokens = TokenTable(np.random.default_rng(0).integers(1000, 30_000, starts[-1]).astype(np.int32), starts, 0)
    _, first = np.unique(group, return_index=True)
    corpus = Corpus.of_table("random", reports, first[np.searchsorted(np.unique(group), group)])
    positives = sum(size * (size - 1) // 2 for size in np.bincount(group))
    ratio = NEGATIVES / positives if count == REPORTS else 1.0
    batches: Any = GroupBatches(batch_size, 0, 0.0, ratio, 0.0, 1)
    graph = DenseAdjacency(normalize(torch.randn(count, 10), dim=1), torch.ones(count, dtype=torch.bool))
    pairs = pd.DataFrame({"earlier": [], "later": [], "label": [], "part": []})
    prepared = PreparedData(corpus, np.zeros(count, dtype=np.int8), corpus.group, pairs, {})
    data = BugReports(prepared, batches=batches)
    data.tokens = tokens
    no_tokenizer: Any = None
    system = DuplicateDetector(
        LoadedEncoder(_encoder(name), no_tokenizer, max_tokens=max(LENGTHS)),
        fusion=WeightedSum(0.5),
        loss=CosineEmbeddingLoss(0.5),
        optimizer=partial(adamw, lr=2e-5, head_lr=1e-4, weight_decay=0.01, fused=True),
        scheduler=partial(constant, warmup_steps=0),
    )
    system.branch = GraphBranch(graph, count, DIM, "text")
    system.to(device)
    attach(data, system, "auto")
    system.optimizer = system.configure_optimizers()["optimizer"]
    return data, system


def _step(system: DuplicateDetector, batch: Batch, precision: str = "bfloat16") -> None:
    moved, optimizer = Batch(*(value.to(system.device) for value in batch)), cast(Optimizer, system.optimizer)
    with _autocast(system.device.type, precision):
        loss = system.training_step(moved, 0)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if system.device.type == "cuda":
        torch.cuda.synchronize()


def _layer_weights(encoder: TextEncoder) -> int:
    """Weights that every token meets: those of the layers, not the embeddings."""
    return sum(weight.numel() for layer in layers_of(encoder.backbone) for weight in layer.parameters())


if __name__ == "__main__":
    rows = list(costs())
    writer = csv.DictWriter(sys.stdout, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
