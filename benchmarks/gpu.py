"""BERT base on one GPU: sequences a second, share of peak, and an epoch the size of the paper's Eclipse corpus.

Weights and text are random, which does not change the work. ``make bench SECTIONS=gpu`` runs it where there is a GPU.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from measure import Row, repeated, seconds, take_turns
from torch.nn.functional import normalize
from transformers import BertConfig, BertModel

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.graph.adjacency import DenseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch, WeightedSum
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.experiments.optimizers import adamw, constant
from gedbd.experiments.prepare import PreparedData
from gedbd.losses import CosineEmbeddingLoss
from gedbd.sampling.group_batches import GroupBatches
from gedbd.text.tokens import TokenTable

SECTION, REPEATS, BATCH, DIM = "GPU", 5, 128, 128
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
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
        share = 6 * _weights(system) * length * float(np.median(rates)) / (1e12 * peak)
        note = f"{name}, {share:.0%} of peak"
        rows.append(repeated(SECTION, f"training, {length} tokens", rates, "sequences/s", note=note))
    lengths = np.interp(np.random.default_rng(0).random(REPORTS), np.linspace(0, 1, len(LENGTHS)), LENGTHS).astype(int)
    group = np.sort(np.concatenate([np.repeat(np.arange(GROUPS), 2), np.arange(REPORTS - 2 * GROUPS) % GROUPS]))
    data, system = assembled(lengths, group, BATCH, "cuda")
    spent = seconds(lambda: [_step(system, batch) for batch in data.train_dataloader()])
    return [*rows, Row(SECTION, "an epoch of Eclipse's size", spent, "s", note=f"{name}; paper: 1,086 s on an A100")]


def assembled(
    lengths: np.ndarray, group: np.ndarray, batch_size: int, device: str
) -> tuple[BugReports, DuplicateDetector]:
    """Random text of given lengths in given groups, and an untrained BERT base with the dense graph."""
    torch.manual_seed(0)
    count = len(lengths)
    reports = pd.DataFrame({"id": np.arange(count).astype(str), "title": "", "description": ""})
    starts = np.concatenate([[0], lengths.cumsum()])
    tokens = TokenTable(np.random.default_rng(0).integers(1000, 30_000, starts[-1]).astype(np.int32), starts, 0)
    _, first = np.unique(group, return_index=True)
    corpus = Corpus.of_table("random", reports, first[np.searchsorted(np.unique(group), group)])
    positives = sum(size * (size - 1) // 2 for size in np.bincount(group))
    ratio = NEGATIVES / positives if count == REPORTS else 1.0
    batches = GroupBatches(batch_size, 0, 0.0, ratio, 0.0, 1)
    graph = DenseAdjacency(normalize(torch.randn(count, 10), dim=1), torch.ones(count, dtype=torch.bool))
    pairs = pd.DataFrame({"earlier": [], "later": [], "label": [], "part": []})
    prepared = PreparedData(corpus, np.zeros(count, dtype=np.int8), corpus.group, pairs, {})
    data = BugReports(prepared, batches=batches)
    data.tokens = tokens
    bert = TextEncoder(BertModel(BertConfig(), add_pooling_layer=False), "cls", DIM)
    system = DuplicateDetector(
        LoadedEncoder(bert, tokenizer=None, max_tokens=max(LENGTHS)),
        fusion=WeightedSum(0.5),
        loss=CosineEmbeddingLoss(0.5),
        optimizer=partial(adamw, lr=2e-5, head_lr=1e-4, weight_decay=0.01, fused=True),
        scheduler=partial(constant, warmup_steps=0),
    )
    system.branch = GraphBranch(graph, count, DIM, "text")
    system.to(device)
    system.trainer = pl.Trainer(accelerator="auto", logger=False, enable_checkpointing=False)
    system.trainer.datamodule = data
    system.log = lambda *_, **__: None
    system.optimizer = system.configure_optimizers()["optimizer"]
    return data, system


def _step(system: DuplicateDetector, batch: tuple[torch.Tensor, ...]) -> None:
    moved = type(batch)(*(value.to(system.device) for value in batch))
    with torch.autocast(system.device.type, dtype=torch.bfloat16):
        loss = system.training_step(moved, 0)
    loss.backward()
    system.optimizer.step()
    system.optimizer.zero_grad()
    if system.device.type == "cuda":
        torch.cuda.synchronize()


def _weights(system: DuplicateDetector) -> int:
    """Weights that every token meets: those of the layers, not the embeddings."""
    return sum(weight.numel() for weight in system.encoder.backbone.encoder.parameters())
