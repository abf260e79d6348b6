"""A training step of base-size encoders beside MiniLM: processor time, memory, and what is kept for the gradient.

BENCHMARK_MPNET=FOLDER make bench SECTIONS=encoder_size

FOLDER is what ``python benchmarks/mpnet.py FOLDER`` wrote. BERT has random weights, which does not change the work.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import process_time

import numpy as np
import torch
from hydra.utils import instantiate
from measure import Row, peak_mb, repeated
from prepared_data import configuration
from torch import Tensor
from transformers import BertConfig, BertModel

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.experiments.optimizers import adamw

SECTION, TOKENS, REPEATS = "encoder size", 128, 2
MINILM, MPNET, BERT = "MiniLM", "all-mpnet-base-v2", "BERT base"
ENCODERS = (MINILM, MPNET, BERT)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
REPORTS = 32  # of pairs=pk, and of 16 pairs; twice as many are those of experiment=best, and of 32 pairs


class Contestant:
    """An encoder and its optimizer in this process; texts are random and have ``TOKENS`` tokens."""

    def __init__(self, name: str, precision: str) -> None:
        torch.manual_seed(0)
        self.encoder = _encoder(name).train()
        self.optimizer = adamw(list(self.encoder.parameters()), [], 2e-5, 1e-4, 0.01, fused=False)
        self.dtype = PRECISIONS[precision]

    def forward(self, reports: int, length: int = TOKENS) -> Tensor:
        """A loss of as many reports of this number of tokens."""
        tokens = torch.randint(1000, 30_000, (reports, length))
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.dtype != torch.float32):
            vectors: Tensor = self.encoder(tokens, torch.ones_like(tokens))
        return vectors.square().mean()

    def step(self, reports: int) -> float:
        """The seconds of processor time that one step takes."""
        start = process_time()
        self.forward(reports).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return process_time() - start

    def kept_bytes(self, reports: int, length: int) -> int:
        """Bytes that a forward pass keeps for the gradient, each storage once."""
        kept: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            self.forward(reports, length)
        return sum(kept.values())


def main() -> list[Row]:
    """Measures a precision at a time, since all processes at once would hold more than 24 GB."""
    rows: list[Row] = []
    for precision in PRECISIONS:
        rows += _take_turns(precision)
        for name in ENCODERS:
            rows += _measure_once(name, precision)
    return rows


def _take_turns(precision: str) -> list[Row]:
    """Steps of ``REPORTS`` reports: the encoders are processes of their own that take turns."""
    pools = {name: _process(name, precision) for name in ENCODERS}
    for pool in pools.values():
        pool.submit(_step, 2).result()  # warms up; a whole step more would take minutes
    # Processor time, since a loaded machine stretches long steps more than short ones.
    taken = {name: np.zeros(REPEATS) for name in pools}
    for turn in range(REPEATS):
        for name, pool in pools.items():
            taken[name][turn] = pool.submit(_step, REPORTS).result()
    rows = []
    for name, pool in pools.items():
        reference = (MINILM, taken[MINILM]) if name != MINILM else None
        note = f"peak {pool.submit(peak_mb).result():,.0f} MB"
        rows.append(
            repeated(SECTION, f"{name}, {precision}, {REPORTS} reports", taken[name], "s a step", reference, note)
        )
        pool.shutdown()
    return rows


def _measure_once(name: str, precision: str) -> list[Row]:
    """One step of twice as many reports, and what the forward pass keeps, in a process of its own."""
    with _process(name, precision) as pool:
        spent = pool.submit(_step, 2 * REPORTS).result()
        note = f"once, peak {pool.submit(peak_mb).result():,.0f} MB"
        rows = [Row(SECTION, f"{name}, {precision}, {2 * REPORTS} reports", spent, "s a step", note=note)]
        for length in (TOKENS, 2 * TOKENS):
            kept = pool.submit(_kept_per_token, length).result() / 1000
            note = f"{precision}, reports of {length} tokens"
            rows.append(Row(SECTION, f"{name}, kept for the gradient", kept, "kB a token", note=note))
    return rows


def _process(name: str, precision: str) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _start, (name, precision))


def _encoder(name: str) -> TextEncoder:
    if name == BERT:
        return TextEncoder(BertModel(BertConfig(), add_pooling_layer=False), "cls", 128)
    options = ["encoder=mpnet", f"encoder.model={os.environ['BENCHMARK_MPNET']}"] if name == MPNET else []
    model: TextEncoder = instantiate(configuration(*options).encoder).model
    return model


contestant: Contestant  # of this process


def _start(name: str, precision: str) -> None:
    global contestant
    contestant = Contestant(name, precision)


def _step(reports: int) -> float:
    return contestant.step(reports)


def _kept_per_token(length: int) -> float:
    """The difference of two sizes leaves out what does not grow with them, such as weights in bfloat16."""
    few = REPORTS // 8
    return (contestant.kept_bytes(2 * few, length) - contestant.kept_bytes(few, length)) / (few * length)
