"""The paper's network: layers over each question of a pair, and a tanhshrink over their joint vector."""

import copy
import itertools

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.io.console import track
from gedbd.questions.confirmation.regressors import Examples


class PairNetwork(nn.Module):
    """``t = tanhshrink(w [f(anchor); g(master)] + b)`` with ``tanhshrink(x) = x - tanh(x)``.

    ``f`` and ``g`` are stacks of linear layers with ReLU; each has weights of its own, as in equations 2 and 3 of Hazra
    et al., 2023; the rest is equation 4.

    Args:
        dim: Size D of a question's vector.
        hidden: Sizes of the layers of each stack.
    """

    def __init__(self, dim: int, hidden: list[int]) -> None:
        super().__init__()
        sizes = [dim, *hidden]
        self.anchor = _layers(sizes)
        self.master = _layers(sizes)
        self.last = nn.Linear(2 * sizes[-1], 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, 2D) -> (B,)`` log10 of the hours; the first D columns are the anchor's."""
        anchor, master = x.chunk(2, dim=1)
        joint = torch.cat([self.anchor(anchor), self.master(master)], dim=1)
        return nn.functional.tanhshrink(self.last(joint)).squeeze(1)


def _layers(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


class Mlp:
    """Trains ``PairNetwork`` with the L1 loss and Adam; keeps the weights of the epoch with the best validation loss.

    Args:
        hidden: Sizes of the layers over each question; the paper: 256 and 64, with the tag network 512 and 64.
        batch_size: The paper: 64.
        lr: The paper: 2e-5.
        max_epochs: Epochs at most; the paper names none.
        patience: Epochs without a better validation loss before training stops.
        seed: Draws weights and batches.
    """

    def __init__(
        self,
        hidden: list[int],
        batch_size: int = 64,
        lr: float = 2e-5,
        max_epochs: int = 500,
        patience: int = 20,
        seed: int = 0,
    ) -> None:
        self.hidden = list(hidden)
        self.batch_size = batch_size
        self.lr = lr
        self.max_epochs = max_epochs
        self.patience = patience
        self.seed = seed

    def fit(self, train: Examples, val: Examples) -> None:
        """Fits on training examples; the best epoch is ``best_epoch_``."""
        x = torch.from_numpy(train.x).float()
        y = torch.from_numpy(train.y).float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = PairNetwork(x.shape[1] // 2, self.hidden)
            self._train(x, y, val)

    def _train(self, x: Tensor, y: Tensor, val: Examples) -> None:
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.lr)
        best = float("inf")
        weights = copy.deepcopy(self.network_.state_dict())
        self.best_epoch_ = 0
        for epoch in track(range(1, self.max_epochs + 1), "train MLP", transient=True):
            for rows in torch.randperm(len(x)).split(self.batch_size):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                loss = nn.functional.l1_loss(self.network_(x[rows]), y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            error = float(np.abs(self.predict(val.x) - val.y).mean())
            if error < best:
                best = error
                weights = copy.deepcopy(self.network_.state_dict())
                self.best_epoch_ = epoch
            if epoch - self.best_epoch_ >= self.patience:
                break
        self.network_.load_state_dict(weights)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predicted log10 hours, ``(N,)``."""
        with torch.no_grad():
            return self.network_(torch.from_numpy(x).float()).double().numpy()  # type: ignore[no-any-return]
