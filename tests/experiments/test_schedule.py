import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

from gedbd.experiments.schedule import check_schedule, rate_factor


def test_the_factor_rises_and_stays():
    assert [rate_factor(step, 3, None) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_the_factor_falls_as_torch_lets_it_fall():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    annealing = CosineAnnealingLR(optimizer, T_max=8)
    for step in range(8):
        assert rate_factor(step + 2, warmup_steps=2, cosine_steps=10) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        annealing.step()
    assert rate_factor(10, 2, 10) == pytest.approx(0)
    assert rate_factor(99, 2, 10) == pytest.approx(0)
    assert rate_factor(0, warmup_steps=10, cosine_steps=5) == pytest.approx(1 / 11)
    assert rate_factor(12, warmup_steps=10, cosine_steps=5) == pytest.approx(0)


def test_an_unknown_schedule_is_refused():
    check_schedule("cosine")
    with pytest.raises(ValueError, match="schedule=linear is unknown: choose constant or cosine"):
        check_schedule("linear")
