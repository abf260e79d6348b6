"""The feature rows of the graph's nodes."""

import torch
from torch import Tensor, nn

FEATURES = ("text", "learnable", "written", "written_detached")


class NodeFeatures(nn.Module):
    """One feature row for every report; the rows of the batch's reports are replaced by their text vectors.

    ======================  ================================  ==============================  =======================
    features                a row is                          after a training step           encoder gets gradient
    ======================  ================================  ==============================  =======================
    ``text`` (ours)         a buffer, filled before training  the text vector stays           yes
    ``learnable``           a parameter                       the parameter is restored       yes
    ``written``             a parameter                       the text vector stays           yes
    ``written_detached``    a parameter                       the text vector stays           no
    ======================  ================================  ==============================  =======================

    A parameter for each row equals the paper's one-hot features times the first weight matrix. ``written`` follows the
    paper's text: [CLS] vectors are assigned to their nodes, and the loss updates encoder and GNN together.
    ``written_detached`` follows the authors' code: the vectors are written without their gradient, which the rows
    receive instead. Evaluation writes nothing here; in the authors' code it does.

    Args:
        num_nodes: Number N of reports.
        dim: Size D of a row.
        features: A name from the table.
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
            # The authors' code uses PyTorch's nn.Embedding, whose rows are drawn with standard deviation 1.
            scale = 1.0 if features == "written_detached" else dim**-0.5
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
        """Stores text vectors as the reports' rows. ``learnable`` rows are changed by the optimizer alone."""
        if self.features != "learnable":
            self.x[n_id] = z_text.detach().to(self.x.dtype)
