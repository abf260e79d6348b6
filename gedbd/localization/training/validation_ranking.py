"""Ranking of validation reports by the similarity of vectors."""

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from gedbd.io.console import track
from gedbd.localization.code_encoder.code_inputs import CodeBatch, CodeEdges, collate
from gedbd.localization.training.change_inputs import Inputs
from gedbd.localization.training.inducing_pairs import InducingPairs
from gedbd.localization.training.tower import TokenFeatures, Tower
from gedbd.text.tokens import split_by_tokens, token_budget

MIN_PROGRESS_INPUTS = 500
MAX_CHANGES = 30  # of a commit: an import has thousands of hunks


class RankedReports(NamedTuple):
    """Reports and the changes that they are ranked against.

    Attributes:
        reports: ``(Q,)`` rows of the reports.
        changes: ``(N,)`` rows of the changes, by commit.
        commits: ``(C,)`` rows of the commits, ascending.
        first: ``(C,)`` where the changes of each commit begin among ``changes``.
        is_candidate: ``(Q, C)`` bool, commits before each report.
        is_relevant: ``(Q, C)`` bool, commits that induced its bug.
    """

    reports: np.ndarray
    changes: np.ndarray
    commits: np.ndarray
    first: np.ndarray
    is_candidate: np.ndarray
    is_relevant: np.ndarray


def choose_candidates(pairs: InducingPairs, count: int) -> RankedReports:
    """The inducing commits of the pairs and ``count`` others, drawn from those before the last report."""
    reports = np.unique(pairs.pairs[:, 0])
    inducing = np.unique(pairs.pairs[:, 1])
    present = [row for row in range(pairs.before[reports].max()) if len(pairs.rows_of[row])]
    others = np.setdiff1d(present, inducing)
    rng = np.random.default_rng(pairs.seed)
    commits = np.union1d(inducing, rng.choice(others, min(count, len(others)), replace=False)).astype(np.int64)
    kept = [_some(pairs.rows_of[commit], rng) for commit in commits.tolist()]
    first = np.cumsum([0, *(len(rows) for rows in kept[:-1])])
    is_candidate = commits < pairs.before[reports][:, None]
    is_relevant = np.array([[commit in pairs.inducing[report] for commit in commits] for report in reports.tolist()])
    return RankedReports(reports, np.concatenate(kept), commits, first, is_candidate, is_relevant & is_candidate)


def _some(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows, or as many as are ranked of a commit."""
    return rows if len(rows) <= MAX_CHANGES else np.sort(rng.choice(rows, MAX_CHANGES, replace=False))


def mean_reciprocal_rank(ranked: RankedReports, reports: np.ndarray, changes: np.ndarray) -> float:
    """The mean of 1 / rank of the first relevant commit; a commit's score is the highest cosine of its changes.

    A commit of the same score as a relevant one counts as ranked before it.

    Args:
        ranked: Q reports and N changes.
        reports: ``(Q, D)`` unit vectors.
        changes: ``(N, D)`` unit vectors.
    """
    scores = np.maximum.reduceat(reports @ changes.T, ranked.first, axis=1)
    best = np.where(ranked.is_relevant, scores, -np.inf).max(axis=1, keepdims=True)
    before = ranked.is_candidate & ~ranked.is_relevant & (scores >= best)
    return float((1 / (1 + before.sum(axis=1))).mean())


class Encoded(NamedTuple):
    """Vectors of N texts.

    Attributes:
        projected: ``(N, dim)`` float32 unit rows.
        features: ``(N, F)`` float32 unit rows: pooled features before the projector.
        tokens: ``(T, dim)`` float16 unit rows of the tokens of comment and code, text by text; None unless wanted. A
            token's features pass through the projector; without ``similarity=max_sim`` it was trained on the means of
            such features.
        starts: ``(N + 1,)`` where the tokens of each text begin: those of text i are starts[i] to starts[i + 1].
    """

    projected: np.ndarray
    features: np.ndarray
    tokens: np.ndarray | None = None
    starts: np.ndarray | None = None


@torch.no_grad()  # not inference_mode: features that are kept are read by training later
def encode(tower: Tower, inputs: Inputs, rows: np.ndarray, bf16: bool, with_tokens: bool, label: str) -> Encoded:
    """Encodes some inputs in batches of similar length, and leaves the mode of the tower as it was.

    Args:
        tower: Encoder and projector.
        inputs: Of the side of the tower.
        rows: ``(N,)`` which inputs.
        bf16: Whether the encoder computes in bfloat16, by autocast.
        with_tokens: Whether the vectors of tokens are wanted; they take N times about 100 times dim times 2 bytes.
        label: What the progress bar says.
    """
    quiet = len(rows) < MIN_PROGRESS_INPUTS
    device = tower.projector.first.weight.device
    was_training = tower.training
    tower.eval()
    made = track(rows.tolist(), f"read {label}", transient=True, disable=quiet)
    lengths = np.array([len(inputs[row]) for row in made], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    features = np.zeros((len(rows), tower.width), dtype=np.float32)
    projected = np.zeros((len(rows), tower.projector.second.out_features), dtype=np.float32)
    empty = np.zeros((0, projected.shape[1]), dtype=np.float16)
    tokens = [empty] * len(rows)
    runs = split_by_tokens(lengths[order].tolist(), token_budget(device))
    for first, last in track(runs, f"encode {label}", transient=True, disable=quiet):
        chosen = order[first:last]
        batch = on_device(collate([inputs[row] for row in rows[chosen].tolist()]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            read = tower.read(batch) if with_tokens or tower.by_tokens else None
            pooled = tower(batch) if read is None else tower.pool(read)
        if read is not None and tower.by_tokens:
            vectors = tower.pool(tower.project_tokens(read))
        else:
            vectors = tower.projector(pooled)
        features[chosen] = normalize(pooled, dim=1).cpu().numpy()
        projected[chosen] = normalize(vectors, dim=1).cpu().numpy()
        if read is not None and with_tokens:
            for number, own in zip(chosen.tolist(), _token_vectors(tower, read), strict=True):
                tokens[number] = own
    tower.train(was_training)
    if not with_tokens:
        return Encoded(projected, features)
    starts = np.cumsum([0, *(len(vectors) for vectors in tokens)])
    return Encoded(projected, features, np.concatenate([empty, *tokens]), starts)


def _token_vectors(tower: Tower, read: TokenFeatures) -> list[np.ndarray]:
    """The projected tokens of each text of a batch."""
    vectors = normalize(tower.projector(read.tokens[read.is_text]), dim=1).half().cpu().numpy()
    return np.split(vectors, np.cumsum(read.is_text.sum(1).cpu().numpy())[:-1])


def on_device(batch: CodeBatch, device: torch.device) -> CodeBatch:
    """The batch with all its tensors on a device."""
    edges = CodeEdges(*(edge.to(device) for edge in batch.edges))
    n_id, input_ids, lengths, blocks = (tensor.to(device) for tensor in batch[:4])
    return CodeBatch(n_id, input_ids, lengths, blocks, edges)
