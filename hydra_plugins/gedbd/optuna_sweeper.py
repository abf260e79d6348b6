"""Optuna as Hydra's sweeper, ``-m hydra/sweeper=optuna``; its study is in the sweep's folder and can be continued."""

import math
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command_words import quoted_text
from gedbd.experiments.sweep_jobs import FINISHED, PRUNED, STUDY, TRIAL, read_status
from gedbd.io.console import open_console, print_line
from gedbd.io.sqlite_file import connect_database

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

Direction = Literal["maximize", "minimize"]

STUDY_FILE = "study.db"


class OptunaTrial(NamedTuple):
    """A trial to run: its place in the study, its id in the storage, and its values."""

    number: int
    trial_id: int
    params: dict[str, Any]


class OptunaSweeper(Sweeper):
    """Takes the options of each job from an Optuna study and reports the job's value to it.

    Args:
        n_trials: Number of finished or pruned trials to reach.
        n_jobs: Number of trials to launch together.
        direction: ``maximize`` or ``minimize`` the value that a job returns.
        seed: Seed of the sampler, whose proposals also depend on the trial's number and on earlier trials.
        sampler: Configuration of an Optuna sampler that takes a ``seed``.
        pruner: Configuration of an Optuna pruner.
    """

    def __init__(
        self, n_trials: int, n_jobs: int, direction: Direction, seed: int, sampler: DictConfig, pruner: DictConfig
    ) -> None:
        self.n_trials = n_trials
        self.n_jobs = n_jobs
        self.direction = direction
        self.seed = seed
        self.sampler = sampler
        self.pruner = pruner

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Stores the configuration and makes the launcher."""
        self.config = config
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Runs trials until there are enough; those that a kill left running come first."""
        try:
            if "RANK" in os.environ:
                raise ValueError(
                    "hydra/sweeper=optuna must run in one process: start it without torchrun; its jobs may use several"
                )
            self._sweep(arguments)
        except ModuleNotFoundError as error:
            raise SystemExit("error: hydra/sweeper=optuna needs Optuna: pip install 'gedbd[optuna]'") from error
        except ValueError as error:
            raise SystemExit(f"error: {error}") from error

    def _sweep(self, arguments: list[str]) -> None:
        from optuna.trial import TrialState

        overrides = OverridesParser.create().parse_overrides(arguments)
        fixed = [str(item.input_line) for item in overrides if not item.is_sweep_override()]
        space = {str(item.get_key_element()): distribution(item) for item in overrides if item.is_sweep_override()}
        if not space:
            raise ValueError(
                "hydra/sweeper=optuna has nothing to search: set a range, such as optimizer.lr=interval(1e-6,1e-4)"
            )
        assert self.config is not None
        folder = Path(self.config.hydra.sweep.dir)
        if "?" in str(folder.resolve()):  # where the options begin in the address of a database
            raise ValueError(f"hydra.sweep.dir={folder}: a search cannot be stored below a name with a question mark")
        storage = f"sqlite:///{folder.resolve()}/{STUDY_FILE}"
        study = self._open_study(folder, storage, sorted(arguments))
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        begun = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        # Trials that a kill left running are launched again under their old numbers; failed ones as new trials.
        queue = [OptunaTrial(trial.number, trial._trial_id, trial.params) for trial in begun]
        for trial in study.get_trials(deepcopy=False, states=(TrialState.FAIL,)):
            if not _retried(study, trial.params):
                study.enqueue_trial(trial.params)
        left = self.n_trials - len(ended)
        while left > 0:
            batch = [queue.pop(0) if queue else self._ask(study, space) for _ in range(min(self.n_jobs, left))]
            jobs = [
                [
                    *fixed,
                    *(f"{key}={value}" for key, value in trial.params.items()),
                    f"+hydra.job.env_set.{TRIAL}={quoted_text(f'{trial.trial_id}@{storage}')}",
                ]
                for trial in batch
            ]
            returns = self.launcher.launch(jobs, initial_job_idx=batch[0].number)
            _report(study, batch, returns)
            left -= len(batch)
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if done:
            options = " ".join(f"{key}={value}" for key, value in study.best_params.items())
            print_line(open_console(), f"best of {len(study.trials)} trials: {study.best_value:.3f} with {options}")

    def _open_study(self, folder: Path, storage: str, arguments: list[str]) -> "Study":
        """The study in the sweep's folder, made if there is none. Raises ValueError if it has other options."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        check_study(folder / STUDY_FILE)
        study = optuna.create_study(storage=storage, study_name=STUDY, direction=self.direction, load_if_exists=True)
        if study.user_attrs.get("options", arguments) != arguments:
            raise ValueError(f"{folder} holds a search with other options: set another hydra.sweep.dir")
        study.set_user_attr("options", arguments)
        # Jobs in other processes read the pruner from the study.
        study.set_user_attr("pruner", OmegaConf.to_container(self.pruner, resolve=True))
        return study

    def _ask(self, study: "Study", space: dict[str, "BaseDistribution"]) -> OptunaTrial:
        """A new trial. It is the same after any number of interruptions."""
        study.sampler = instantiate(self.sampler, seed=self.seed + len(study.get_trials(deepcopy=False)))
        trial = study.ask(fixed_distributions=space)
        return OptunaTrial(trial.number, trial._trial_id, trial.params)


def check_study(file: Path) -> None:
    """Raises ValueError if a study's file has triggers or views, which would run; Optuna makes none."""
    if not file.exists():
        return
    kinds = " AND ".join(f"sql NOT LIKE 'CREATE {kind} %'" for kind in ("TABLE", "INDEX", "UNIQUE INDEX"))
    try:
        with closing(connect_database(file, "mode=ro")) as study:
            others = study.execute(f"SELECT name FROM sqlite_master WHERE {kinds}").fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{file} is damaged ({error}): set another hydra.sweep.dir") from error
    if others:
        raise ValueError(f"{file} has {others[0][0]!r:.80}, which Optuna did not make: set another hydra.sweep.dir")


def distribution(override: Override) -> "BaseDistribution":
    """Optuna's distribution of a sweep in Hydra's syntax; choices stay texts as on the command line."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    if isinstance(value, IntervalSweep):
        assert value.start is not None
        assert value.end is not None
        log = "log" in value.tags
        if isinstance(value.start, int) and isinstance(value.end, int):
            return IntDistribution(value.start, value.end, log=log)
        return FloatDistribution(value.start, value.end, log=log)
    if isinstance(value, RangeSweep) and not value.shuffle:
        values = [float(item) for item in override.sweep_iterator() if isinstance(item, int | float)]
        low = min(values)
        high = max(values)
        step = abs(value.step)
        if all(isinstance(end, int) for end in (value.start, value.stop, value.step)):
            return IntDistribution(int(low), int(high), step=int(step))
        return FloatDistribution(low, high, step=step)
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def _retried(study: "Study", params: dict[str, Any]) -> bool:
    """Whether the options of a failed trial have been tried again, or are waiting to be."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    return any(trial.params == params and trial.state != TrialState.FAIL for trial in trials)


def _report(study: "Study", batch: Sequence[OptunaTrial], returns: Sequence[JobReturn]) -> None:
    """Reports to the study how the jobs ended."""
    from optuna.trial import TrialState

    for trial, job in zip(batch, returns, strict=True):
        assert job.hydra_cfg is not None
        status = read_status(Path(job.hydra_cfg.hydra.runtime.output_dir))
        value = math.nan if status is None or status.value is None else status.value
        if status is not None and status.state == PRUNED:
            study.tell(trial.number, state=TrialState.PRUNED)
        elif status is not None and status.state == FINISHED and not math.isnan(value):
            study.tell(trial.number, value)
        else:
            study.tell(trial.number, state=TrialState.FAIL)
