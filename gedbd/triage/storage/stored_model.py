"""Tells the model in an index file from others, and from what damage has made of it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gedbd.evaluation.run_folders import MATCHING
from gedbd.triage.storage.damage import damaged
from gedbd.triage.training import TriageModel

NAMES = ("name", "model", "settings", "matching", "dim")


def model_key(settings: str, matching: str, weights: bytes) -> str:
    """A hash by which an index tells models apart.

    Args:
        settings: Of encoder, texts and backend, as JSON.
        matching: What a backtest has learnt, as JSON.
        weights: The encoder's, as ``torch.save`` wrote them.
    """
    about = {"settings": settings, "matching": matching}
    return hashlib.blake2b(json.dumps(about).encode() + weights, digest_size=16).hexdigest()


def check_names(path: Path, about: Mapping[str, str]) -> None:
    """Raises ValueError if an index does not say what it must say of itself."""
    for name in NAMES:
        if name not in about:
            raise damaged(path, f"it does not say its {name}")


def check_model(path: Path, about: Mapping[str, str], weights: bytes) -> None:
    """Raises ValueError if settings, matching or weights are not those that were written."""
    if model_key(about["settings"], about["matching"], weights) != about["model"]:
        raise damaged(path, "its encoder or its settings are not what was written")


def read_matching(text: str, source: str) -> TriageModel:
    """What a backtest has learnt, from JSON. Raises ValueError, naming the source, if an older version wrote it."""
    try:
        return TriageModel.from_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{source}: {MATCHING} is damaged: it holds no JSON ({error})") from error
    except ValueError as error:
        raise ValueError(f"{source} {error}") from error
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{source}: {MATCHING} is damaged: {type(error).__name__} at {error}") from error


def fitted(path: Path, about: Mapping[str, str], name: str) -> Any:
    """What was fitted to texts, from JSON. Raises ValueError if it cannot be read."""
    try:
        found = json.loads(about[name])
    except (KeyError, ValueError, RecursionError) as error:
        raise damaged(path, f"its {name} cannot be read") from error
    if not (isinstance(found, list) and all(isinstance(text, str) for text in found)):
        raise damaged(path, f"its {name} is not a list of texts")
    return found
