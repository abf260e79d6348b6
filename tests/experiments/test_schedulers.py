import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

from gedbd.experiments.optimizers import constant, cosine, cosine_factor, warmup_factor


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def rates(scheduler: torch.optim.lr_scheduler.LambdaLR, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(scheduler.get_last_lr()[0])
        scheduler.optimizer.step()
        scheduler.step()
    return found


def test_the_factor_rises_and_stays():
    assert [warmup_factor(step, 3) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_the_cosine_is_that_of_torch():
    sgd = optimizer()
    annealing = CosineAnnealingLR(sgd, T_max=8)
    for step in range(8):
        assert cosine_factor(step + 2, warmup_steps=2, total_steps=10) == pytest.approx(sgd.param_groups[0]["lr"])
        sgd.step()
        annealing.step()
    assert cosine_factor(10, 2, 10) == pytest.approx(0)
    assert cosine_factor(99, 2, 10) == pytest.approx(0)
    assert cosine_factor(0, warmup_steps=10, total_steps=5) == pytest.approx(1 / 11)
    assert cosine_factor(12, warmup_steps=10, total_steps=5) == pytest.approx(0)


def test_the_schedulers_of_the_configuration():
    def unknown() -> int:
        raise AssertionError("a constant rate does not depend on the length of the run")

    assert rates(constant(optimizer(), unknown, warmup_steps=1), 3) == [0.5, 1, 1]
    assert rates(cosine(optimizer(), lambda: 4, warmup_steps=0), 4) == pytest.approx(
        [1, 0.853553, 0.5, 0.146447], abs=1e-6
    )
