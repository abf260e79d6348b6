"""Ray as Hydra's launcher, ``-m hydra/launcher=ray``; the one on PyPI is of 2022 and requires cloudpickle below 3."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class RayLauncher(Launcher):
    """Runs the jobs of a sweep as tasks of a Ray cluster, as many at a time as its resources allow.

    Args:
        address: Address of a running cluster, ``auto`` to find it, or None for this machine alone.
        num_cpus: CPUs of a job.
        num_gpus: GPUs of a job.
    """

    def __init__(self, address: str | None, num_cpus: float, num_gpus: float) -> None:
        self.address = address
        self.num_cpus = num_cpus
        self.num_gpus = num_gpus

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Stores the parts that jobs are made of."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs and waits for all of them."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
        try:
            import ray
        except ModuleNotFoundError as error:
            raise SystemExit("error: hydra/launcher=ray needs Ray: pip install 'gedbd[ray]'") from error
        # Without an address Ray would join the cluster that RAY_ADDRESS or a file of another user in /tmp names.
        ray.init(address=self.address or "local", ignore_reinit_error=True, logging_level=logging.WARNING)
        task = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=0)(_run)
        # Hydra's global state does not travel with a task: it is sent along and restored in the worker.
        shared = (self.hydra_context, self.task_function, self.config, Singleton.get_state(), os.getcwd())
        jobs = [
            task.remote(list(overrides), number, *shared)
            for number, overrides in enumerate(job_overrides, start=initial_job_idx)
        ]
        returns: list[JobReturn] = ray.get(jobs)
        return returns


def _run(
    overrides: list[str],
    number: int,
    hydra_context: HydraContext,
    task_function: TaskFunction,
    config: DictConfig,
    singletons: dict[Any, Any],
    folder: str,
) -> JobReturn:
    """Runs one job in a process of the cluster, in the folder where the sweep was started."""
    os.chdir(folder)
    setup_globals()
    Singleton.set_state(singletons)
    job = hydra_context.config_loader.load_sweep_config(config, overrides)
    # As Hydra's joblib launcher sets them.
    with open_dict(job):
        job.hydra.job.id = f"{config.hydra.job.name}_{number}"
        job.hydra.job.num = number
    HydraConfig.instance().set_config(job)
    return run_job(
        hydra_context=hydra_context,
        config=job,
        task_function=task_function,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
