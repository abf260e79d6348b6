"""Ray as a backend: PyTorch on many machines, for corpora that one of them would read too slowly.

It is a backend, not an option of one command: whatever is encoded goes to the workers, in the same batches as with
PyTorch, and what comes back is kept in the same cache, so that a run that was killed goes on where it was.
Ray Data moves the batches, feeds each worker as it asks for more, and gives the work of one that died to another.
"""

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.backends.pytorch import PreparedTorch
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.text.tokens import TokenTable, token_budget

if TYPE_CHECKING:
    import ray.data

Columns = dict[str, np.ndarray]


class Ray:
    """Workers of a Ray cluster, each with PyTorch and a copy of the encoder.

    Args:
        address: A cluster to join, of which this machine is one: ``auto``, or ``host:6379``. None starts one here,
            which ends with the process. Every machine needs gedbd.
        workers: How many workers read side by side.
        cpus: Cores of each.
        gpus: GPUs of each, 0 or 1.

    Raises:
        ValueError: If Ray is not installed, a number is out of range, or the address is one of Ray Client's, through
            which Ray Data does not run.
    """

    calibrated = False

    def __init__(self, address: str | None, workers: int, cpus: int, gpus: int) -> None:
        if find_spec("ray") is None:
            raise ValueError("backend: ray is not installed: pip install 'gedbd[ray]', or backend=torch")
        if workers < 1 or cpus < 1 or gpus not in (0, 1):
            asked = f"backend.workers={workers}, backend.cpus={cpus}, backend.gpus={gpus}"
            raise ValueError(f"{asked}: there must be 1 or more workers and cores of each, and 0 or 1 GPU")
        if address is not None and address.startswith("ray://"):
            raise ValueError(
                f"backend.address={address}: Ray Data needs a machine of the cluster: say auto on one of them"
            )
        self.address, self.workers, self.cpus, self.gpus = address, workers, cpus, gpus

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedRay":
        """See ``Backend``. Joins the cluster, or starts one.

        Raises:
            ValueError: If no cluster answers there, or it has no room for a single worker.
        """
        import ray

        join(self.address, self.workers * self.cpus)
        there = ray.cluster_resources()
        if there.get("CPU", 0) < self.cpus or there.get("GPU", 0) < self.gpus:
            asked = f"backend.cpus={self.cpus}, backend.gpus={self.gpus}"
            has = f"{there.get('CPU', 0):.0f} cores and {there.get('GPU', 0):.0f} GPUs"
            raise ValueError(f"{asked}: the cluster has {has}, too few for a single worker")
        return PreparedRay(encoder, self.workers, self.cpus, self.gpus)


class PreparedRay:
    """Reads in the order given; see ``PreparedBackend``. Its vectors are those of PyTorch, and are kept as such.

    All batches are in Ray's object store while they are read, five bytes a token; it spills to disk.
    """

    key = ""

    def __init__(self, encoder: TextEncoder, workers: int, cpus: int, gpus: int) -> None:
        self.encoder, self.workers, self.cpus, self.gpus = encoder, workers, cpus, gpus
        self.tokens_a_batch = token_budget(torch.device("cuda" if gpus else "cpu"))

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """See ``PreparedBackend``."""
        import ray.data

        kept = ray.put(self.encoder)  # as long as this lives, a worker that died can be started again
        rows = [
            {"input_ids": ids.numpy().astype(np.int32), "attention_mask": mask.numpy().astype(bool)}
            for ids, mask in batches
        ]
        found = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Worker,
            fn_constructor_args=(kept,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=self.workers, max_size=self.workers),
            num_cpus=self.cpus,
            num_gpus=self.gpus,
        )
        found.context.execution_options.preserve_order = True
        found.context.enable_progress_bars = False
        for row in found.iter_rows():
            yield row["vectors"]


class Worker:
    """A process of the cluster that has loaded the encoder once; takes one batch at a time.

    Args:
        encoder: Where the encoder lies in Ray's object store.
    """

    def __init__(self, encoder: "ray.ObjectRef[TextEncoder]") -> None:
        import ray

        self.prepared = PreparedTorch(ray.get(encoder))

    def __call__(self, batch: Columns) -> Columns:
        """``vectors (1, U, hidden)`` of ``input_ids (1, U, L)`` and ``attention_mask (1, U, L)``."""
        given = (torch.from_numpy(batch[name][0].astype(np.int64)) for name in ("input_ids", "attention_mask"))
        (vectors,) = self.prepared.encode([(next(given), next(given))])
        return {"vectors": vectors[None]}


def join(address: str | None, cores: int) -> None:
    """Joins a Ray cluster, or starts one on this machine, once for this process.

    Args:
        address: See ``Ray``.
        cores: Of the cluster that is started.

    Raises:
        ValueError: If no cluster answers at the address.
    """
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_BACKEND_LOG_LEVEL", "fatal")):
        os.environ.setdefault(name, value)
    import ray.data

    if ray.is_initialized():
        return
    for logger in ("ray", "ray.data"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    own = {"num_cpus": cores, "include_dashboard": False} if address is None else {}
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR} | own
    try:
        if address is not None:
            _knock(address)
        ray.init(address or "local", **settings)
    except OSError as error:  # Ray's own is a ConnectionError
        raise ValueError(f"backend.address={address}: no Ray cluster answers there ({error})") from error


def _knock(address: str) -> None:
    """Raises OSError if nobody listens at ``host:port``: Ray would go on trying for minutes."""
    host, separator, port = address.partition(":")
    if separator and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()
