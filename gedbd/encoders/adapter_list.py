"""Adapters of one base that were trained on several trackers, as a JSON file beside them lists them."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd
from safetensors.torch import load_file
from transformers import PreTrainedModel

from gedbd.corpora.tracker_samples import count_shared
from gedbd.encoders.backbone import merge_adapter
from gedbd.encoders.model_files import find_file
from gedbd.io.checksums import checksum
from gedbd.io.files import locate, read_object

ALL = "all"  # the adapter that was trained on all trackers
WITHOUT = "without_"  # and those that were trained on all but one begin with this
MIN_SHARED = 3  # reports of a sample that also occur in a corpus of the same tracker, even in a small part of it


class AdapterList(NamedTuple):
    """The content of the file.

    Attributes:
        path: The file. Each adapter lies beside it, with PEFT's names of weights, in ``NAME.safetensors``.
        base: The SHA-256 of the base's ``model.safetensors``.
        lora_alpha: PEFT's setting of that name.
        files: The SHA-256 of each adapter by its name, ``all``, or ``without_`` and the name of a tracker.
        trackers: Of each tracker that ``all`` was trained on, a sample of its reports, see ``sample_of``.
    """

    path: Path
    base: str
    lora_alpha: float
    files: dict[str, str]
    trackers: dict[str, list[int]]

    @classmethod
    def read(cls, path: str, sha256: str | None = None) -> "AdapterList":
        """Reads the file, which may be ``pkg://package/file``.

        Raises:
            ValueError: If it is missing or damaged, or does not have the given checksum.
        """
        file = locate(path, "encoder.adapter")
        digest = checksum(file)
        if digest != (sha256 or digest):
            raise ValueError(
                f"{file} has SHA-256 {digest} instead of {sha256}: it is of another version of gedbd; train or index"
                " again with this one, or install that one"
            )
        content = read_object(file, *cls._fields[1:])
        return cls(file, *(content[name] for name in cls._fields[1:]))

    def find(self, without: str | None) -> Path:
        """The file of the adapter that was trained on all trackers, or on all but one.

        Raises:
            ValueError: If there is none, or it is damaged.
        """
        name = ALL if without is None else f"{WITHOUT}{without}"
        if name not in self.files:
            names = sorted(file.removeprefix(WITHOUT) for file in self.files if file != ALL)
            raise ValueError(f"encoder.without={without}: no adapter leaves it out; choose null, {', '.join(names)}")
        file = self.path.with_name(f"{name}.safetensors")
        if not file.is_file() or checksum(file) != self.files[name]:
            raise ValueError(f"{file} is not the adapter that {self.path.name} lists: install gedbd again")
        return file

    def add_to(self, backbone: PreTrainedModel, without: str | None, model: str, sha256: str | None = None) -> None:
        """Adds an adapter, see ``find``, to the weights of a backbone.

        ``model`` is the folder or the name on the hub that the backbone was read from, and ``sha256`` the checksum of
        its ``model.safetensors`` if that is known.

        Raises:
            ValueError: If it is not the adapters' base.
        """
        weights = None if sha256 else find_file(model, "model.safetensors", local=True)
        if self.base != (checksum(weights) if weights else sha256):
            raise ValueError(
                f"encoder.adapter={self.path} was trained for other weights than encoder.model={model} has: set"
                " encoder.adapter=null"
            )
        file = self.find(without)
        merge_adapter(backbone, load_file(file), str(file), {"lora_alpha": self.lora_alpha})

    def notice(self, reports: pd.DataFrame, without: str | None) -> str | None:
        """A line for the user of reports of a tracker that the adapter ``without`` was trained on; None for others."""
        shared = dict(zip(self.trackers, count_shared(reports, list(self.trackers.values())), strict=True))
        name = max(shared, key=lambda name: shared[name], default=None)
        if name is None or shared[name] < MIN_SHARED or name == without:
            return None
        cure = "no adapter leaves it out"
        if f"{WITHOUT}{name}" in self.files:
            cure = f"use encoder.without={name}"
        return f"the encoder was trained on the duplicates of this tracker, {name}, so figures are too good: {cure}"
