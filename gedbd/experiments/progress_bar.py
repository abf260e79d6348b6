"""Lightning's progress bar, with the epochs counted from 1 as in the lines below it."""

from pytorch_lightning.callbacks import RichProgressBar


class EpochProgressBar(RichProgressBar):
    """Counts epochs from 1: ``epoch 3/3`` for the last of three, where Lightning writes ``Epoch 2/2``."""

    def _get_train_description(self, current_epoch: int) -> str:
        max_epochs = self.trainer.max_epochs
        limit = f"/{max_epochs}" if max_epochs and max_epochs > 0 else ""
        # as wide as the description of validation, or the bar would move
        return f"epoch {current_epoch + 1}{limit}".ljust(len(self.validation_description))
