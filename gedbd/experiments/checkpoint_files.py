"""How checkpoints are written: the one before stays until the new one is complete and on the disk."""

import hashlib
from pathlib import Path
from typing import IO, Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from gedbd.io.checksums import check_whole, checksum, note_checksums, noted_checksums
from gedbd.io.files import replacing


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its place, flushes it to the disk, renames it, and notes its checksum.

    Lightning's own writes into the folder of temporary files. If that is on another file system, what follows is a copy
    over the checkpoint before: a kill during it leaves neither.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Replaces a checkpoint.

        Raises:
            OSError: If the disk is full or refuses; the checkpoint before is then still there.
        """
        if storage_options is not None:
            raise TypeError("storage_options is not supported: checkpoints are local files")
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = noted_checksums(path) or ([checksum(path)] if path.is_file() else [])
        with replacing(path) as unfinished:
            digest = _write(checkpoint, unfinished)
            note_checksums(path, [*before, digest])  # a kill before the next line leaves either content
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
    """Makes a trainer write its checkpoints with ``WholeCheckpointIO``, unless its user has chosen another way."""
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = WholeCheckpointIO()


class _Hashing:
    """A file to write to that computes the checksum of what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


def _write(checkpoint: dict[str, Any], path: Path) -> str:
    """Writes a checkpoint into a new file and gives its checksum."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(checkpoint, hashing)  # type: ignore[arg-type]
        except RuntimeError as error:
            # PyTorch closes its archive after an error of the disk, fails at that too, and raises only the latter.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
    return hashing.digest.hexdigest()
