"""An epoch of the same positives and as many negatives: the paper's loop, sentence-transformers' trainer, ours."""

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
from hydra.utils import instantiate
from measure import Row, seconds, take_turns
from paper_loop import PAIRS, PaperLoop
from prepared_data import built, configuration
from sentence_loop import SentenceLoop

from gedbd.duplicates.bug_reports import Batch, BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.graph.adjacency import DenseAdjacency

SECTION = "training epoch"
REPEATS = 3


class OurLoop:
    """Steps of the training task itself; counts the tokens of the last one."""

    def __init__(self, data: BugReports, system: DuplicateDetector) -> None:
        self.system, self.loader = system, data.train_dataloader()
        self.batches: Iterator[Batch] = cycle(self.loader)
        self.optimizer = system.configure_optimizers()["optimizer"]
        lengths = data.tokens.lengths
        self.reports = [len(step.rows) for step in self.loader.sampler]
        self.tokens = sum(int(lengths[step.rows].sum()) for step in self.loader.sampler)
        self.rates: list[float] = []

    def step(self) -> None:
        """One step; notes its tokens a second."""
        batch = next(self.batches)

        def compute() -> None:
            self.system.training_step(batch, 0).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

        self.rates.append(float(batch.attention_mask.sum()) / seconds(compute))


def main() -> list[Row]:
    """Measures."""
    ours = {
        "pairs=sampled": OurLoop(*built("pairs=sampled", f"batch_size={PAIRS}")),
        "pairs=grouped": OurLoop(*(grouped := built("pairs=grouped"))),
        "pairs=grouped, a quarter singletons": OurLoop(*built("pairs=grouped", "batches.singletons=0.25")),
    }
    data, system = grouped
    cfg = configuration()
    texts = instantiate(cfg.text)(data.corpus.reports).texts
    train = data.pairs_of("train")
    pairs, label = train[["earlier", "later"]].to_numpy(), train["label"].to_numpy()
    encoder = instantiate(cfg.encoder)
    backbone = encoder.model.backbone
    backbone.set_attn_implementation("sdpa")
    graph = data.adjacency
    assert isinstance(graph, DenseAdjacency)
    paper = PaperLoop(backbone, encoder.tokenizer, texts, pairs, label, graph, cfg.encoder.max_tokens)
    peer = SentenceLoop(texts, pairs, label, cfg.encoder.max_tokens, PAIRS)
    calls: dict[str, Callable[[], object]] = {"paper": paper.step, "peer": peer.step}
    taken = _medians(calls | {name: loop.step for name, loop in ours.items()})
    slow = taken["paper"] * len(paper)
    padded = 2 * len(pairs) * cfg.encoder.max_tokens
    real = int(data.tokens.lengths[pairs].sum())
    rows = [
        Row(SECTION, "the paper's loop", slow, "s", note=_work(2 * len(pairs), padded, 1 - real / padded)),
        _against(
            slow, "sentence-transformers' trainer", taken["peer"] * len(paper), f"{2 * len(pairs):,} texts encoded"
        ),
    ]
    for name, loop in ours.items():
        note = _work(sum(loop.reports), loop.tokens, 0)
        rows.append(_against(slow, name, loop.tokens / float(np.median(loop.rates[1:])), note))
    return [*rows, _graph_share(system, ours["pairs=grouped"])]


def _work(texts: int, tokens: int, padding: float) -> str:
    return f"{texts:,} texts encoded, {tokens:,} tokens, {padding:.0%} of them padding"


def _against(slow: float, name: str, value: float, note: str) -> Row:
    return Row(SECTION, name, value, "s", "the paper's loop", slow / value, note)


def _graph_share(system: DuplicateDetector, loop: OurLoop) -> Row:
    """What the graph branch takes of a step of whole groups."""
    batch = next(loop.batches)
    z = system.encoder(batch.input_ids, batch.attention_mask).detach().requires_grad_()
    branch = system.branch
    assert branch is not None
    calls = {"graph": lambda: branch(batch.n_id, z).sum().backward(), "step": loop.step}
    taken = _medians(calls)
    share = 100 * taken["graph"] / taken["step"]
    note = f"{1000 * taken['graph']:.0f} ms of {taken['step']:.2f} s, {len(batch.n_id)} reports"
    return Row("graph", "share of a training step", share, "%", note=note)


def _medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    return {name: float(np.median(values)) for name, values in take_turns(calls, REPEATS).items()}
