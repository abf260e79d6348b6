"""Exchange of tensors between the processes of a distributed run; a single process keeps its own.

Also what happens when one of the processes ends, and the sharding of weights: PyTorch's FSDP2 through Lightning.
"""

import logging
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor, nn

from gedbd.configuration.command_words import path_value
from gedbd.io.checksums import check_whole

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from gedbd.encoders.text_encoder import TextEncoder

OBSERVER_LOG = "lightning_fabric.strategies.launchers.subprocess_script"

DEATH_S = 5.0  # how long a process may take to end after the connection to it has failed


def is_first() -> bool:
    """Whether this process prints and writes: the first one by the count of torchrun, SLURM or Lightning."""
    return rank_zero_only.rank == 0  # type: ignore[attr-defined, no-any-return]


def gather(module: pl.LightningModule, value: Tensor) -> Tensor:
    """Concatenates the rows of all processes, which may have different numbers of rows; differentiable."""
    if module.trainer.world_size == 1:
        return value
    counts = module.all_gather(torch.tensor(len(value), device=value.device))
    assert isinstance(counts, Tensor)
    # all_gather needs equal shapes: rows are padded to the largest count and cut afterwards.
    padded = torch.cat([value, value.new_zeros(int(counts.max()) - len(value), *value.shape[1:])])
    gathered = module.all_gather(padded, sync_grads=value.requires_grad)
    return torch.cat([rows[:count] for rows, count in zip(gathered, counts.tolist(), strict=True)])


def summed(module: pl.LightningModule, values: Tensor) -> Tensor:
    """The sum of a tensor over all processes; every process calls this."""
    if module.trainer.world_size == 1:
        return values
    gathered = module.all_gather(values)
    assert isinstance(gathered, Tensor)
    return gathered.sum(dim=0)


def waiting_lines(trainer: pl.Trainer, arguments: Sequence[str], folder: Path) -> list[str]:
    """Lines about the machines that this process waits for, and how to start them.

    Empty where torchrun or SLURM starts all machines, and in all but the first process of a machine.
    """
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.num_nodes == 1 or trainer.local_rank or not isinstance(environment, LightningEnvironment):
        return []
    address = os.environ.get("MASTER_ADDR", socket.gethostname())
    endpoint = f"{address}:{environment.main_port}"
    if trainer.node_rank:
        return [f"machine {trainer.node_rank} of {trainer.num_nodes} waits for the first one at {endpoint}"]
    ranks = ", ".join(map(str, range(1, trainer.num_nodes)))
    kept = [word for word in arguments if not word.startswith("hydra.run.dir=")]
    command = shlex.join(["gedbd", "train", *kept, f"hydra.run.dir={path_value(folder.absolute())}"])
    variables = f"MASTER_ADDR={address} MASTER_PORT={environment.main_port}"
    first_words = f"waiting for {trainer.num_nodes - 1} more of {trainer.num_nodes} machines at {endpoint}; start each"
    return [f"{first_words}, with NODE_RANK={ranks} and the same files:", f"  {variables} NODE_RANK=1 {command}"]


@contextmanager
def all_end_together(trainer: pl.Trainer) -> Iterator[None]:
    """If this process fails, ends those that its trainer has started, and names one that failed first.

    Lightning also checks every 5 seconds whether one has ended, and then kills this process; its log is printed.

    Raises:
        ValueError: If another process has ended, so that the exchange with it failed.
    """
    logger = logging.getLogger(OBSERVER_LOG)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("error: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    except BaseException as error:
        processes: list[subprocess.Popen[bytes]] = getattr(trainer.strategy.launcher, "procs", [])
        # Gloo and NCCL report a lost connection as a RuntimeError.
        ended = _failure_message(processes) if isinstance(error, RuntimeError) else None
        for process in processes:
            process.kill()
            process.wait()
        processes.clear()  # so that Lightning does not kill this process before it has printed the error
        if ended:
            raise ValueError(ended) from error
        raise


def _failure_message(processes: list[subprocess.Popen[bytes]]) -> str | None:
    """Message that says which process has failed and what to do; None if all still run after ``DEATH_S``."""
    deadline = time.monotonic() + DEATH_S
    while time.monotonic() < deadline:
        for rank, process in enumerate(processes, start=1):
            status = process.poll()
            if status:
                ending = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
                cause = "too little memory is a common cause" if status == -signal.SIGKILL else "see its message above"
                return (
                    f"the process of rank {rank} {ending} ({cause}), so the others were ended too; continue with"
                    " ckpt_path= and checkpoints/last.ckpt of the run folder"
                )
        time.sleep(0.05)
    return None


class FullyShardedStrategy(ModelParallelStrategy):
    """Each process holds a shard of weights, gradients and optimizer states, and trains on batches of its own.

    Checkpoints are not sharded: the first process gathers the weights and writes one file, as with a single device.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        """Forms one group of all processes; Lightning's default forms one for each node."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        """Loads the weights and, to continue training, the optimizer's state, which ``best.ckpt`` does not contain.

        Raises:
            ValueError: If the checkpoint is damaged. Lightning reads it here without its ``CheckpointIO``.
        """
        if Path(checkpoint_path).is_file():
            check_whole(Path(checkpoint_path))
        assert self.lightning_module is not None
        # In a test there is an optimizer, but no state for it in best.ckpt.
        if self.lightning_module.trainer.state.fn != TrainerFn.FITTING:
            self.optimizers = []
        return super().load_checkpoint(checkpoint_path, weights_only)


def shard(encoder: "TextEncoder", branch: nn.Module | None, fusion: nn.Module, mesh: "DeviceMesh") -> None:
    """Shards the encoder, layer by layer, the graph branch and the fusion.

    Buffers are not sharded: the node features of ``graph.features=text`` and the graph's operator. Modules that are
    sharded already are not changed. While a layer of the encoder computes, all of its weights are on each device. A
    fusion without weights is not sharded.
    """
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if isinstance(encoder, FSDPModule):
        return
    parts = [part for part in (encoder, branch, fusion) if part is not None and count_weights(part)]
    for module in (*layers_of(encoder.backbone), *parts):
        fully_shard(module, mesh=mesh)


def layers_of(backbone: nn.Module) -> list[nn.Module]:
    """The layers of a transformer: its ``ModuleList`` with the most weights; empty if it has none."""
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    largest = max(lists, key=count_weights, default=nn.ModuleList())
    return list(largest)


def count_weights(module: nn.Module) -> int:
    """Number of weights in all parameters."""
    return sum(weight.numel() for weight in module.parameters())
