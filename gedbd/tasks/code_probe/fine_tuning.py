"""A short contrastive training of an encoder on comments and methods."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.code.flow_graph import FlowGraph
from gedbd.encoders.code.batches import collate
from gedbd.encoders.code.inputs import CodeInput
from gedbd.io.console import track
from gedbd.losses.loss import StepLabels
from gedbd.losses.multiple_negatives import MultipleNegativesLoss
from gedbd.tasks.code_probe.encoding import ProbedEncoder
from gedbd.text.tokens import split_by_tokens, token_budget


@dataclass(frozen=True)
class FineTuning:
    """How an encoder is trained to find methods; the same for every encoder.

    Args:
        steps: Steps of the optimizer (AdamW without weight decay); 0 leaves fine-tuning out.
        batch_size: Queries in a step; the other methods of the step are the negatives.
        lr: Learning rate after the warm-up, which is the first tenth of the steps; it then falls linearly to 0.
        temperature: See ``MultipleNegativesLoss``.
    """

    steps: int = 60
    batch_size: int = 32
    lr: float = 2e-4
    temperature: float = 0.05

    def __post_init__(self) -> None:
        for name, lowest in (("steps", 0), ("batch_size", 2)):
            if getattr(self, name) < lowest:
                raise ValueError(f"task.fine_tuning.{name}={getattr(self, name)} must be {lowest} or more")
        for name in ("lr", "temperature"):
            if getattr(self, name) <= 0:
                raise ValueError(f"task.fine_tuning.{name}={getattr(self, name)} must be above 0")

    def lr_factor(self, step: int) -> float:
        """The share of ``lr`` in a step, from 0."""
        warm_up = max(self.steps // 10, 1)
        # Of 20 steps, two to warm up: 1/2, 1, then 18/18, 17/18 and so on.
        return min((step + 1) / warm_up, (self.steps - step) / max(self.steps - warm_up, 1), 1.0)


def fine_tune(
    encoder: ProbedEncoder,
    queries: Sequence[str],
    codes: Sequence[str],
    graphs: Sequence[FlowGraph | None],
    settings: FineTuning,
    seed: int,
) -> ProbedEncoder:
    """A copy of the encoder, trained so that the vectors of queries and their methods are near; without dropout.

    Args:
        encoder: Stays as it is.
        queries: Q queries, all different.
        codes: Q methods that answer them.
        graphs: Their flow graphs; None to read the code alone.
        settings: See ``FineTuning``.
        seed: Determines the order: the same pairs in the same steps for every encoder.
    """
    tuned = ProbedEncoder(
        encoder.saved._replace(encoder=copy.deepcopy(encoder.saved.encoder)), encoder.bf16, encoder.device
    )
    query_inputs = [tuned.query_input(query) for query in queries]
    code_inputs = [tuned.code_input(code, graph) for code, graph in zip(codes, graphs, strict=True)]
    model = tuned.saved.encoder
    optimizer = torch.optim.AdamW(model.parameters(), settings.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, settings.lr_factor)
    loss = MultipleNegativesLoss(settings.temperature)
    for rows in track(step_rows(len(queries), settings, seed), "fine-tune for search", transient=True):
        first = _vectors(tuned, [query_inputs[row] for row in rows], "comment")
        second = _vectors(tuned, [code_inputs[row] for row in rows], "code")
        group = torch.arange(len(rows), device=first.device).repeat(2)
        no_pairs = group.new_empty((2, 0))
        labels = StepLabels(group, no_pairs, no_pairs[0])
        value = loss(normalize(torch.cat([first, second]), dim=1), labels)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return tuned


def _vectors(encoder: ProbedEncoder, inputs: Sequence[CodeInput], block: str) -> Tensor:
    """The mean vector of a block of each input, ``(B, H)``; inputs of similar length are padded together."""
    lengths, order = torch.tensor([len(one) for one in inputs]).sort(stable=True)
    runs = split_by_tokens(lengths.tolist(), token_budget(encoder.device))
    batches = [collate([inputs[row] for row in order[first:last].tolist()]) for first, last in runs]
    vectors = [encoder.pooled(batch, block) for batch in batches]
    # argsort of the order restores the order of the inputs.
    return torch.cat(vectors)[order.argsort()]


def step_rows(count: int, settings: FineTuning, seed: int) -> list[np.ndarray]:
    """The rows of each step: shuffled, again and again, a query at most once in a step."""
    rng = np.random.default_rng(seed)
    size = min(settings.batch_size, count)
    rows: list[np.ndarray] = []
    while len(rows) < settings.steps:
        order = rng.permutation(count)
        # The rest of an epoch that fills no batch is left out: of 7 rows in batches of 3, one.
        rows += list(order[: count - count % size].reshape(-1, size))
    return rows[: settings.steps]
