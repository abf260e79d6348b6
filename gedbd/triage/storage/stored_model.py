"""Identifies the model in an index file by a hash, and checks it for damage."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gedbd.evaluation.run_folders import MATCHING
from gedbd.triage.storage.rows import damaged
from gedbd.triage.triage_model import TriageModel

REQUIRED = ("name", "model", "settings", "matching", "dim")


def model_key(settings: str, matching: str, weights: bytes) -> str:
    """A hash that identifies a model.

    Args:
        settings: Settings of encoder, text template and backend, as JSON.
        matching: What a backtest has learned, as JSON.
        weights: The encoder's weights, as ``torch.save`` wrote them.
    """
    about = {"settings": settings, "matching": matching}
    return hashlib.blake2b(json.dumps(about).encode() + weights, digest_size=16).hexdigest()


def check_names(path: Path, about: Mapping[str, str]) -> None:
    """Raises ValueError if a required fact about an index is missing."""
    for name in REQUIRED:
        if name not in about:
            raise damaged(path, f"its {name} is missing")


def check_model(path: Path, about: Mapping[str, str], weights: bytes) -> None:
    """Raises ValueError if settings, matching or weights differ from what was written."""
    if model_key(about["settings"], about["matching"], weights) != about["model"]:
        raise damaged(path, "its encoder or its settings differ from their checksum")


def read_matching(text: str, source: str) -> TriageModel:
    """What a backtest has learned, from JSON. Raises ValueError, naming the source, if another version wrote it."""
    try:
        return TriageModel.from_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}: {MATCHING} is damaged: it is not JSON ({error})") from error
    except ValueError as error:
        raise ValueError(f"{source} {error}") from error
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{source}: {MATCHING} is damaged: {type(error).__name__} at {error}") from error


def fitted(path: Path, about: Mapping[str, str], name: str) -> Any:
    """Texts that were fitted to the corpus, from JSON. Raises ValueError if they cannot be read."""
    try:
        found = json.loads(about[name])
    except (KeyError, ValueError, RecursionError) as error:
        raise damaged(path, f"its {name} cannot be read") from error
    if not (isinstance(found, list) and all(isinstance(text, str) for text in found)):
        raise damaged(path, f"its {name} is not a list of texts")
    return found
