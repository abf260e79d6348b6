"""Options that are to change the time of a training and not its numbers, through the command."""

import pandas as pd
import pytest
import torch

TINY = ["encoder=tiny", "encoder.dropout=0", "trainer=smoke", "ranking.parts=[]", "batch_size=24", "seed=3"]


@pytest.mark.slow  # two minutes of compiling
def test_losses_and_weights_are_the_same(run_command):
    def trained(folder, *options):
        run_command("train", *TINY, *options, f"hydra.run.dir={folder}")
        weights = torch.load(f"{folder}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        return float(pd.read_csv(f"{folder}/metrics.csv")["train/loss"][0]), weights

    loss, weights = trained("plain")
    assert trained("compiled", "compile=true")[0] == pytest.approx(loss, abs=1e-5)
    for option in ("chunk_tokens=64", "optimizer.fused=false"):
        again, found = trained(option.partition("=")[0], option)
        assert again == pytest.approx(loss, abs=1e-6)
        for key, value in weights.items():
            torch.testing.assert_close(found[key], value, atol=2e-6, rtol=0, msg=key)
