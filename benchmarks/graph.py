"""Propagation over the dense graph: beside the matrix it stands for, and at a million reports."""

import torch
from measure import Row, peak_mb, repeated, seconds, take_turns
from torch.nn.functional import normalize

from gedbd.duplicates.graph.adjacency import DenseAdjacency, kernel

SECTION = "dense graph"
SMALL, LARGE, DIM, PCA_DIM, REPEATS = 8_000, 1_000_000, 128, 10, 9


@torch.no_grad()
def main() -> list[Row]:
    """Measures."""
    torch.manual_seed(0)
    large = _large()
    vectors, x = normalize(torch.randn(SMALL, PCA_DIM), dim=1), torch.randn(SMALL, DIM)
    operator = DenseAdjacency(vectors, torch.ones(SMALL, dtype=torch.bool))
    weight = kernel(vectors @ vectors.T, 1)
    scale = weight.sum(dim=1).rsqrt()
    matrix = scale[:, None] * weight * scale
    taken = take_turns({"matrix": lambda: matrix @ x, "operator": lambda: operator(x)}, REPEATS)
    what = f"propagation, {SMALL:,} reports"
    dense = ("the materialised matrix", taken["matrix"])
    return [repeated(SECTION, what, taken["operator"], "s", dense), *large]


def _large() -> list[Row]:
    before = peak_mb()
    vectors, x = normalize(torch.randn(LARGE, PCA_DIM), dim=1), torch.randn(LARGE, DIM)
    spent = seconds(lambda: DenseAdjacency(vectors, torch.ones(LARGE, dtype=torch.bool))(x))
    what = f"propagation, {LARGE:,} reports"
    note = f"D = {DIM}, construction included; the matrix would hold {4e-9 * LARGE**2:,.0f} GB"
    return [Row(SECTION, what, spent, "s", note=note), Row(SECTION, f"{what}: memory", peak_mb() - before, "MB")]
