"""A trained cross-encoder on the disk: its weights as safetensors, and its settings beside them as JSON."""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from gedbd.encoders.backends.backend import Backend
from gedbd.encoders.encoder import Encoder
from gedbd.encoders.weights import load_state
from gedbd.io.checksums import checksum
from gedbd.io.files import read_object, replacing, write_text
from gedbd.retrieval.reports.cross_scores import CrossScores

FORMAT = 1
WEIGHTS = "cross_encoder.safetensors"
SETTINGS = "cross_encoder.json"
NUMBERS = ("max_tokens", "depth")


def save_cross_scores(scores: CrossScores, folder: Path) -> None:
    """Writes what ``load_cross_scores`` reads. The folder is made if absent."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in scores.model.state_dict().items()}
    with replacing(folder / WEIGHTS) as unfinished:
        unfinished.write_bytes(save(weights))
    settings = {
        "format": FORMAT,
        "sha256": checksum(folder / WEIGHTS),
        "max_tokens": scores.model.max_tokens,
        "depth": scores.depth,
    }
    write_text(folder / SETTINGS, json.dumps(settings, indent=1) + "\n")


def load_cross_scores(folder: Path, encoder: Encoder, backend: Backend | None = None) -> CrossScores:
    """The scores of a trained cross-encoder.

    Args:
        folder: See ``save_cross_scores``.
        encoder: An encoder of the architecture and with the tokenizer that the training started from; its weights do
            not matter.
        backend: See ``CrossScores``.

    Raises:
        ValueError: If a file is missing or damaged, or holds the weights of another architecture.
    """
    file = folder / WEIGHTS
    settings = read_object(folder / SETTINGS, "format", "sha256", *NUMBERS)
    if settings["format"] != FORMAT:
        raise ValueError(f"{folder / SETTINGS} is not of format {FORMAT}: train the cross-encoder again")
    if not all(isinstance(settings[name], int) for name in NUMBERS):
        raise ValueError(f"{folder / SETTINGS} is damaged: train the cross-encoder again")
    if not file.is_file() or checksum(file) != settings["sha256"]:
        raise ValueError(f"{file} is missing or damaged: train the cross-encoder again")
    scores = CrossScores(encoder, settings["max_tokens"], settings["depth"], backend=backend)
    try:
        weights = load(file.read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged ({error}): train the cross-encoder again") from error
    load_state(scores.model, weights, str(file))
    return scores
