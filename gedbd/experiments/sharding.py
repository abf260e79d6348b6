"""Sharding of weights over all devices: PyTorch's FSDP2 through Lightning."""

from pathlib import Path
from typing import Any

from pytorch_lightning.strategies import ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.checksums import check_whole


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


def shard(encoder: TextEncoder, branch: nn.Module | None, fusion: nn.Module, mesh: DeviceMesh) -> None:
    """Shards the encoder, layer by layer, the graph branch and the fusion.

    Buffers are not sharded: the node features of ``graph.features=text`` and the graph's operator. Modules that are
    sharded already are not changed.

    Args:
        encoder: The text branch. While a layer computes, all of its weights are on each device.
        branch: The graph branch, if there is one.
        fusion: The fusion; not sharded if it has no weights.
        mesh: The processes, in one dimension.
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
