"""The feature rows of the graph's nodes."""

import torch
from torch import Tensor, nn

FEATURES = ("text", "learnable", "written", "written_detached")


class NodeMemory(nn.Module):
    """One feature row for every report; the rows of the batch's reports are replaced by their text vectors.

    ======================  ================================  ==============================  =======================
    features                a row is                          after a training step           encoder gets gradient
    ======================  ================================  ==============================  =======================
    ``text`` (ours)         a buffer, filled before training  the text vector stays           yes
    ``learnable``           a parameter                       the parameter comes back        yes
    ``written``             a parameter                       the text vector stays           yes
    ``written_detached``    a parameter                       the text vector stays           no
    ======================  ================================  ==============================  =======================

    A parameter a row is what the paper's one-hot features times the first weight matrix amount to. ``written`` is the
    paper's text: [CLS] vectors are assigned to their nodes, and the loss updates encoder and GNN together.
    ``written_detached`` is the authors' code: the vectors are written without their gradient, so the rows get it in
    their place. Evaluation writes nothing; theirs did.

    Args:
        num_nodes: Reports N.
        dim: Size D of a row.
        features: One of the table.
    """

    def __init__(self, num_nodes: int, dim: int, features: str) -> None:
        super().__init__()
        if features not in FEATURES:
            raise ValueError(
                f"graph.features={features} is unknown: choose {', '.join(FEATURES[:-1])} or {FEATURES[-1]}"
            )
        self.features = features
        self.learnable = features != "text"
        if self.learnable:
            scale = 1.0 if features == "written_detached" else dim**-0.5  # theirs is PyTorch's nn.Embedding
            self.x = nn.Parameter(torch.randn(num_nodes, dim) * scale)
        else:
            self.register_buffer("x", torch.zeros(num_nodes, dim))

    def place(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """The vectors that replace the rows ``n_id`` in this step, ``(U, D)``."""
        if self.features != "written_detached":
            return z_text
        if not self.training:
            return z_text.detach()
        self.write(n_id, z_text)
        return self.x[n_id]

    @torch.no_grad()
    def write(self, n_id: Tensor, z_text: Tensor) -> None:
        """Keeps text vectors as the reports' rows from now on. ``learnable`` rows are left to the optimizer alone."""
        if self.features != "learnable":
            self.x[n_id] = z_text.detach().to(self.x.dtype)
