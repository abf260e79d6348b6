"""Options that are to change the time of a training and not its numbers, through the command."""

import sys
from collections.abc import Callable

import pandas as pd
import pytest
import torch

import gedbd.train

Trained = tuple[float, dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trained]:
    """Two steps without dropout: the training loss and the weights, once for each set of options."""
    home = tmp_path_factory.mktemp("speed")
    done: dict[tuple[str, ...], Trained] = {}
    common = ["encoder=tiny", "encoder.dropout=0", "trainer=smoke", "ranking.parts=[]", "batch_size=24", "seed=3"]

    def through(*options: str) -> Trained:
        if options not in done:
            folder = home / str(len(done))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("GEDBD_CACHE", str(home / "cache"))
                patch.setattr(sys, "argv", ["gedbd", *common, *options, f"hydra.run.dir={folder}"])
                gedbd.train.main()
            weights = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
            done[options] = float(pd.read_csv(folder / "metrics.csv")["train/loss"][0]), weights
        return done[options]

    return through


CONTRASTIVE = ("pairs=pk", "batch_size=24", "loss=supervised_contrastive")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "common"),
    [
        ("chunk_tokens=64", ()),
        ("chunk_tokens=64", CONTRASTIVE),
        ("optimizer.fused=false", ()),
    ],
)
def test_weights_are_the_same(trained, option, common):
    (plain_loss, plain), (loss, weights) = trained(*common), trained(*common, option)
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    for key, value in plain.items():
        torch.testing.assert_close(weights[key], value, atol=2e-6, rtol=0, msg=key)


@pytest.mark.slow  # two minutes of compiling
def test_a_compiled_encoder_has_the_same_loss(trained):
    assert trained("compile=true")[0] == pytest.approx(trained()[0], abs=1e-5)
