"""Writes adapters as gedbd/encoders/adapter_list.py reads them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from safetensors.torch import save_file
from torch import Tensor

from gedbd.corpora.tracker_samples import sample_of
from gedbd.encoders.adapters import DOWN, SCALE
from gedbd.io.checksums import checksum


def write_adapters(
    folder: Path,
    base: str,
    adapters: Mapping[str, Mapping[str, Tensor]],
    trackers: Mapping[str, list[pd.DataFrame]],
    share: float = 1.0,
) -> str:
    """Writes ``NAME.safetensors`` in float16 and ``adapters.json``; returns the SHA-256 of the latter.

    Args:
        folder: A new or existing folder.
        base: The SHA-256 of the base's ``model.safetensors``.
        adapters: Weights of adapters by name, ``all`` or ``without_TRACKER``, all of one rank. Those with names that
            end in ``lora_A`` or ``lora_B`` are written, as in a run's ``encoder_state`` or a backbone's ``state_dict``.
        trackers: Tables of reports, with ``id`` and ``title``, of each tracker that ``all`` was trained on: the export
            that was read, and others of the same tracker by which it is to be recognised.
        share: Of the learned change, to be added to the base.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files, ranks = {}, set()
    for name, state in adapters.items():
        factors = {key.removeprefix("backbone."): value for key, value in state.items() if "lora_" in key}
        ranks |= {len(value) for key, value in factors.items() if key.endswith(DOWN)}
        file = folder / f"{name}.safetensors"
        save_file(
            {f"base_model.model.{key}.weight": value.detach().half().contiguous() for key, value in factors.items()},
            file,
        )
        file.chmod(0o644)
        files[name] = checksum(file)
    (rank,) = ranks
    content = {"base": base, "lora_alpha": share * SCALE * rank, "files": files}
    content["trackers"] = {
        name: [hash_ for table in tables for hash_ in sample_of(table)] for name, tables in trackers.items()
    }
    (folder / "adapters.json").write_text(json.dumps(content) + "\n")
    return checksum(folder / "adapters.json")
