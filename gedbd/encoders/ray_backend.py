"""The Ray backend: many machines, for large corpora.

Vectors of finished batches are stored in the cache, so that an interrupted run continues where it stopped. Ray Data
distributes the batches and repeats those of a worker that died.
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

from gedbd.encoders.backend import Torch, openvino_obstacle
from gedbd.encoders.openvino_backend import OpenVino
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.text.tokens import TokenTable, token_budget

if TYPE_CHECKING:
    import ray.data

ArrayColumns = dict[str, np.ndarray]


class Ray:
    """Workers of a Ray cluster, each with a copy of the encoder and the quickest backend for it.

    That is PyTorch on a GPU, and OpenVINO on a CPU if it is installed here.

    Args:
        address: A cluster to join, which this machine belongs to: ``auto``, or ``host:6379``. None starts a cluster on
            this machine, which ends with the process. gedbd must be installed on every machine.
        workers: Number of workers.
        cpus: Cores of each worker.
        gpus: GPUs of each worker, 0 or 1.
        precision: ``float32`` or ``bfloat16``.

    Raises:
        ValueError: If Ray is not installed, a number is out of range, the precision is unknown, or the address
            is one of Ray Client, which Ray Data does not support.
    """

    calibrated = False

    def __init__(self, address: str | None, workers: int, cpus: int, gpus: int, precision: str = "float32") -> None:
        if find_spec("ray") is None:
            raise ValueError("backend: ray is not installed: pip install 'gedbd[ray]', or backend=torch")
        if workers < 1 or cpus < 1 or gpus not in (0, 1):
            options = f"backend.workers={workers}, backend.cpus={cpus}, backend.gpus={gpus}"
            raise ValueError(f"{options}: set 1 or more workers and CPUs per worker, and 0 or 1 GPUs")
        if address is not None and address.startswith("ray://"):
            raise ValueError(
                f"backend.address={address}: Ray Data must run on a machine of the cluster: set it to auto there"
            )
        self.address = address
        self.workers = workers
        self.cpus = cpus
        self.gpus = gpus
        self.torch = Torch(precision)

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedRay":
        """The encoder on the workers of a cluster, which is joined or started.

        Raises:
            ValueError: If no cluster answers at the address, or it is too small for a single worker.
        """
        import ray

        join(self.address, self.workers * self.cpus)
        resources = ray.cluster_resources()
        if resources.get("CPU", 0) < self.cpus or resources.get("GPU", 0) < self.gpus:
            options = f"backend.cpus={self.cpus}, backend.gpus={self.gpus}"
            available = f"{resources.get('CPU', 0):.0f} cores and {resources.get('GPU', 0):.0f} GPUs"
            raise ValueError(f"{options}: the cluster has {available}, which is too few for a single worker")
        precision = self.torch.precision
        on_gpu = bool(self.gpus)
        backend = self.torch if on_gpu or openvino_obstacle(encoder, precision) else OpenVino(precision)
        return PreparedRay(encoder, backend, self)


class PreparedRay:
    """Encodes in the order of the batches; see ``PreparedBackend``.

    In float32 it shares the cached vectors of PyTorch, which differ by rounding at most. All batches are in
    Ray's object store at once, five bytes per token; it spills to disk.
    """

    def __init__(self, encoder: TextEncoder, backend: Torch | OpenVino, settings: Ray) -> None:
        self.encoder = encoder
        self.backend = backend
        self.settings = settings
        self.key = "" if backend.precision == "float32" else backend.prepare(encoder, None).key
        self.tokens_a_batch = token_budget(torch.device("cuda" if settings.gpus else "cpu"))

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """The vectors of each batch, in order."""
        import ray.data

        workers = self.settings.workers
        stored = ray.put(self.encoder)  # the reference keeps it in the store, for workers that start later
        rows = [
            {"input_ids": ids.numpy().astype(np.int32), "attention_mask": mask.numpy().astype(bool)}
            for ids, mask in batches
        ]
        encoded = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            RayWorker,
            fn_constructor_args=(stored, self.backend),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=workers, max_size=workers),
            num_cpus=self.settings.cpus,
            num_gpus=self.settings.gpus,
        )
        encoded.context.execution_options.preserve_order = True
        encoded.context.enable_progress_bars = False  # encode_batches shows one
        for row in encoded.iter_rows():
            yield row["vectors"]


class RayWorker:
    """A process of the cluster, which loads the encoder once and encodes one batch at a time."""

    def __init__(self, encoder: "ray.ObjectRef[TextEncoder]", backend: Torch | OpenVino) -> None:
        import ray

        self.prepared = backend.prepare(ray.get(encoder), None)

    def __call__(self, batch: ArrayColumns) -> ArrayColumns:
        """``vectors (1, U, hidden)`` of ``input_ids (1, U, L)`` and ``attention_mask (1, U, L)``."""
        input_ids = torch.from_numpy(batch["input_ids"][0].astype(np.int64))
        attention_mask = torch.from_numpy(batch["attention_mask"][0].astype(np.int64))
        (vectors,) = self.prepared.encode([(input_ids, attention_mask)])
        return {"vectors": vectors[None]}


def join(address: str | None, cores: int) -> None:
    """Joins a Ray cluster, or starts one on this machine, once per process.

    Raises:
        ValueError: If no cluster answers at the address.
    """
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_BACKEND_LOG_LEVEL", "fatal")):
        os.environ.setdefault(name, value)
    # After the environment variables: Ray reads them when it is imported.
    import ray.data

    if ray.is_initialized():
        return
    for logger in ("ray", "ray.data"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    new_cluster = {"num_cpus": cores, "include_dashboard": False} if address is None else {}
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR} | new_cluster
    try:
        host, separator, port = (address or "").partition(":")
        if separator and port.isdecimal():  # Ray itself would keep trying for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address or "local", **settings)
    except OSError as error:  # Ray raises a ConnectionError, which is one
        raise ValueError(f"backend.address={address}: no Ray cluster answers there ({error})") from error
