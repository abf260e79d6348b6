"""Which options of Lightning's Trainer a run refuses, and what says the same."""

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
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


def unknown_option(word: str, names: Sequence[str]) -> str:
    """The message for an option of the section ``trainer`` that its file does not list.

    Args:
        word: The option with its value.
        names: Dotted names of the options that are listed.
    """
    name = word.partition("=")[0].removeprefix("trainer.")
    if name in REFUSED:
        return f"trainer.{name}= cannot be set: {REFUSED[name]}"
    from pytorch_lightning import Trainer

    parameters = list(inspect.signature(Trainer).parameters)
    if name in parameters:
        return f"trainer.{name}= is an argument of Lightning's Trainer that conf/trainer does not list: write +{word}"
    near = get_close_matches(name, parameters, n=1)
    sign = "" if near and f"trainer.{near[0]}" in names else "+"
    hint = f"did you mean {sign}trainer.{near[0]}?" if near else "--help lists the options"
    return f"unknown option trainer.{name}: {hint} (to add an argument of Lightning's Trainer: +trainer.NAME=)"


def check_whole_evaluation(trainer: DictConfig) -> None:
    """Raises ValueError if a part of the validation or test batches is left out, where all reports are ranked."""
    for name in ("limit_val_batches", "limit_test_batches"):
        value = trainer.get(name)
        # Of Lightning's two meanings, 1.0 is all batches, and 1 is one batch.
        if value is not None and not (isinstance(value, float) and value == 1):
            raise ValueError(
                f"trainer.{name}={value} cannot be set: evaluation needs the vectors of all reports; to train on fewer"
                " batches, choose debug=limit or set +trainer.limit_train_batches="
            )


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
