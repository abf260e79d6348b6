"""What training does for a GPU: pinned batches, few reads of values, and few waits in a step."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from pytorch_lightning.callbacks import RichProgressBar
from small_duplicates import assemble, training_step

from gedbd.experiments import callbacks
from gedbd.experiments.callbacks import EpochProgressBar


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("cuda", True)])
def test_batches_for_a_gpu_are_in_pinned_memory(device, pinned):
    data, _ = assemble()
    strategy = SimpleNamespace(root_device=torch.device(device))
    data.trainer = SimpleNamespace(world_size=1, global_rank=0, strategy=strategy)
    assert data.train_dataloader().pin_memory == pinned
    data.trainer = None
    assert not data.train_dataloader().pin_memory


@pytest.mark.parametrize(("device", "steps"), [("cpu", [0, 1, 2, 3, 4]), ("cuda", [0, 3])])
def test_the_progress_bar_reads_few_values_from_a_gpu(monkeypatch, device, steps):
    read = []
    monkeypatch.setattr(callbacks, "SHOWN_STEPS", 3)
    monkeypatch.setattr(RichProgressBar, "_update_metrics", lambda self, trainer, module: read.append(step))
    for step in range(5):
        loop = SimpleNamespace(epoch_loop=SimpleNamespace(batch_idx=step))
        trainer = SimpleNamespace(training=True, fit_loop=loop)
        EpochProgressBar()._update_metrics(trainer, SimpleNamespace(device=torch.device(device)))
    assert read == steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="counts the waits for a GPU, and there is none")
def test_a_training_step_waits_for_the_gpu_once():
    data, system = assemble()
    training_step(data, system.cuda())  # sets trainer and data
    batch = next(iter(data.train_dataloader()))
    batch = type(batch)(*(value.cuda() for value in batch))
    system.training_step(batch, 0).backward()  # the first step allocates memory
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        system.training_step(batch, 0).backward()
        torch.cuda.set_sync_debug_mode("default")
    assert len([wait for wait in waits if "synchroniz" in str(wait.message)]) == 1  # the lengths of the texts
