"""Which options of Lightning's Trainer a run refuses, and what says the same."""

from typing import Any

from omegaconf import DictConfig

# Options that gedbd sets itself, and that it cannot follow.
REFUSED = {
    "callbacks": "choose callbacks=[early_stopping,lr_monitor], or add +callbacks.NAME={_target_: package.Class}",
    "logger": "choose logger=[wandb,tensorboard], or add +logger.NAME={_target_: package.Class}",
    "default_root_dir": "set the run folder by hydra.run.dir=",
    "use_distributed_sampler": "batch samplers share out the batches of several processes themselves",
    "num_sanity_val_steps": "the threshold would be chosen on a part of the pairs; debug=fdr is a quick check",
    "fast_dev_run": "evaluation needs the vectors of all reports; choose debug=fdr",
    "overfit_batches": "evaluation needs the vectors of all reports; choose debug=overfit",
    "enable_checkpointing": "the best checkpoint is tested",
    "barebones": "the best checkpoint is tested",
}
UNUSED: dict[str, tuple[Any, ...]] = {  # values that ask for nothing
    "num_sanity_val_steps": (0,),
    "fast_dev_run": (False,),
    "overfit_batches": (0,),
    "enable_checkpointing": (True,),
    "barebones": (False,),
    "use_distributed_sampler": (False,),
}
AT_LEAST_ONE = ("limit_train_batches", "limit_val_batches", "limit_test_batches", "max_steps")


def check_trainer(trainer: DictConfig) -> None:
    """Raises ValueError if the options of ``conf/trainer`` ask for what a run cannot do."""
    for name, instead in REFUSED.items():
        if name in trainer and trainer[name] not in UNUSED.get(name, ()):
            raise ValueError(f"trainer.{name}= cannot be set: {instead}")
    for name in AT_LEAST_ONE:
        if trainer.get(name) == 0:
            raise ValueError(f"trainer.{name}=0: a run trains, validates and tests; gedbd baseline does not train")
    every, epochs = trainer.get("check_val_every_n_epoch", 1), trainer.max_epochs
    if every is None or 0 < epochs < every:
        raise ValueError(
            f"trainer.check_val_every_n_epoch={every}: no epoch of {epochs} is validated, so there is no best one"
        )
