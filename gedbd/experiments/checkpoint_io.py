"""Writing of checkpoint files: the previous one stays until the new one is complete and on the disk."""

import hashlib
from pathlib import Path
from typing import IO, Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from gedbd.io.checksums import check_whole, checksum, note_checksums, noted_checksums
from gedbd.io.files import replacing


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint next to its final path, flushes it to the disk, renames it, and records its checksum.

    Lightning's class writes into the folder of temporary files. If that is on another file system, the checkpoint is
    then copied over the previous one, and a kill during the copy destroys both.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Replaces a checkpoint.

        Raises:
            OSError: If the disk is full or fails; the previous checkpoint then still exists.
        """
        if storage_options is not None:
            raise TypeError("storage_options is not supported: checkpoints are local files")
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = noted_checksums(path) or ([checksum(path)] if path.is_file() else [])
        with replacing(path) as unfinished:
            digest = _write(checkpoint, unfinished)
            # Both checksums are valid until the rename: a kill around it leaves either content.
            note_checksums(path, [*before, digest])
        note_checksums(path, [digest])

    def load_checkpoint(self, path: str | Path, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Loads a checkpoint, see ``TorchCheckpointIO``. Raises ValueError if it is damaged."""
        if Path(path).is_file():
            check_whole(Path(path))
        return super().load_checkpoint(path, *arguments, **options)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Removes a checkpoint and its checksum."""
        super().remove_checkpoint(path)
        if noted_checksums(Path(path)):
            note_checksums(Path(path), [])


def save_whole(trainer: pl.Trainer) -> None:
    """Makes a trainer write its checkpoints with ``WholeCheckpointIO``, unless it has a custom ``CheckpointIO``."""
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = WholeCheckpointIO()


class _Hashing:
    """A file to write to that computes the checksum of its content."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


def _write(checkpoint: dict[str, Any], path: Path) -> str:
    """Writes a checkpoint into a new file and returns its checksum."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(checkpoint, hashing)  # type: ignore[arg-type]
        except RuntimeError as error:
            # After an error of the disk, or Ctrl-C, PyTorch closes its archive, which fails too, and raises only the
            # second error.
            if isinstance(error.__context__, OSError | KeyboardInterrupt):
                raise error.__context__ from None
            raise
    return hashing.digest.hexdigest()
