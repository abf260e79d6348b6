"""Ends a trial of Optuna whose epochs are worse than those of other trials."""

import pytorch_lightning as pl
from hydra.utils import instantiate
from pytorch_lightning.callbacks import Checkpoint

from gedbd.configuration.allowed_targets import check_plain, named_targets
from gedbd.experiments.sweeps.jobs import STUDY, Pruned


class EpochPruning(Checkpoint):
    """Reports a metric of each epoch to the trial's study and raises ``Pruned`` if its pruner decides so.

    A subclass of ``Checkpoint`` because Lightning runs their hooks last in an epoch. An epoch is reported once: of
    several seeds, the first decides. The last epoch is not pruned.

    Args:
        trial_id: The trial's id in the storage.
        storage: URL of the study's database.
        metric: What is reported: the higher, the better.
    """

    def __init__(self, trial_id: int, storage: str, metric: str = "val/f1") -> None:
        self.trial_id = trial_id
        self.storage = storage
        self.metric = metric

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reports the epoch. The first process decides for all processes of the job."""
        if self.metric not in trainer.callback_metrics:  # no epoch was validated yet
            return
        value = float(trainer.callback_metrics[self.metric])
        pruned = trainer.is_global_zero and self._should_prune(trainer.current_epoch, value)
        is_last = trainer.current_epoch + 1 == trainer.max_epochs
        if trainer.strategy.broadcast(pruned) and not is_last:
            raise Pruned(value)

    def _should_prune(self, epoch: int, value: float) -> bool:
        import optuna

        study = optuna.load_study(study_name=STUDY, storage=self.storage)
        pruner = study.user_attrs["pruner"]
        # The study's file may come from someone else, and instantiate calls any target.
        check_plain(pruner, self.storage)
        other = named_targets(pruner) - {f"optuna.pruners.{name}" for name in optuna.pruners.__all__}
        if other:
            raise ValueError(
                f"{self.storage}: {min(other)} is not a pruner of Optuna, and a file may name nothing else"
            )
        # A loaded study has Optuna's default pruner.
        study.pruner = instantiate(pruner)
        trial = optuna.Trial(study, self.trial_id)
        reported = study._storage.get_trial(self.trial_id).intermediate_values
        if epoch in reported:
            return False
        trial.report(value, epoch)
        return trial.should_prune()
