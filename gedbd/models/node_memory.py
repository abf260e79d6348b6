"""The feature rows of the graph's nodes."""

import torch
from torch import Tensor, nn


class NodeMemory(nn.Module):
    """One feature row for every report; the rows of the batch's reports are replaced by their text vectors.

    ``learnable``: every row is a parameter, which is what the paper's one-hot features times the first weight matrix
    amount to. ``text`` (ours): every row is the last text vector that training saw of the report, filled once before
    training by ``write``. In both, gradient flows through the replaced rows into the encoder (in the authors' code it
    did not).

    Args:
        num_nodes: Reports N.
        dim: Size D of a row.
        features: ``learnable`` or ``text``.
    """

    def __init__(self, num_nodes: int, dim: int, features: str) -> None:
        super().__init__()
        if features not in ("learnable", "text"):
            raise ValueError(f"graph.features={features} is unknown: choose learnable or text")
        self.learnable = features == "learnable"
        if self.learnable:
            self.x = nn.Parameter(torch.randn(num_nodes, dim) / dim**0.5)
        else:
            self.register_buffer("x", torch.zeros(num_nodes, dim))

    @torch.no_grad()
    def write(self, n_id: Tensor, z_text: Tensor) -> None:
        """Keeps text vectors as the reports' rows from now on. Learnable rows are left to the optimizer."""
        if not self.learnable:
            self.x[n_id] = z_text.detach().to(self.x.dtype)
