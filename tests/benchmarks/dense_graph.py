"""Times the dense graph operator at the size of the paper's Eclipse corpus, and beside the matrix it stands for.

Run by ``make bench``. Prints medians; memory is what the process grew by at its peak.
"""

import resource
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.graph.dense import DenseAdjacency, kernel

ECLIPSE, SMALL, DIM, PCA_DIM, REPEATS = 68_124, 8_000, 128, 10, 9


def median_seconds(forward: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Median of several calls after one to warm up."""
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        forward(x)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def peak_mb() -> float:
    """Largest size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measures and prints."""
    torch.manual_seed(0)
    table = Table(
        "reports", "power", "operator, s", "more memory, MB", "matrix, s", "matrix / operator", title="dense graph"
    )
    for reports, power in ((ECLIPSE, 1), (ECLIPSE, 2), (SMALL, 1)):
        vectors, x = normalize(torch.randn(reports, PCA_DIM), dim=1), torch.randn(reports, DIM)
        before = peak_mb()
        operator = DenseAdjacency(vectors, torch.ones(reports, dtype=torch.bool), power)
        seconds, grown = median_seconds(operator, x), peak_mb() - before
        row = [f"{reports:,}", str(power), f"{seconds:.4f}", f"{grown:.0f}", "-", "-"]
        if reports == SMALL:
            weight = kernel(vectors @ vectors.T, power)
            scale = weight.sum(dim=1).rsqrt()
            matrix = scale[:, None] * weight * scale
            slow = median_seconds(matrix.matmul, x)
            row[4:] = [f"{slow:.4f}", f"{slow / seconds:.0f}"]
        table.add_row(*row)
    Console().print(table, f"{torch.get_num_threads()} threads, torch {torch.__version__}, D = {DIM}, d = {PCA_DIM}")


if __name__ == "__main__":
    with torch.no_grad():
        main()
