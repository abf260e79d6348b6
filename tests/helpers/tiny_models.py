"""Indexes of a small tracker with tiny encoders, as the command ``index`` stores them."""

import json
from dataclasses import replace

from small_tracker import MATCHING, TARGET, read_rows, tiny_reader

from gedbd.triage.index_building import Model, synchronise
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.stored_model import model_key


def stored_model(hidden: int, target_precision: float) -> Model:
    """A model whose vectors have so many numbers, and whose backtest has measured this target."""
    encoder = {"_target_": "gedbd.encoders.loaded_encoder.load_tiny_encoder", "name": "tiny", "pooling": "mean"}
    encoder |= {"dim": 8, "max_tokens": 32, "hidden": hidden, "layers": 1, "dropout": 0.0, "seed": 0}
    text = {"_partial_": True, "_target_": "gedbd.corpora.templates.title_description"}
    settings = json.dumps({"encoder": encoder, "text": text, "backend": {"_target_": "gedbd.encoders.backend.Torch"}})
    target = replace(TARGET, target_precision=target_precision)
    matching = replace(MATCHING, targets=(target,), target_precision=target_precision).as_json()
    about = {"settings": settings, "matching": matching, "name": f"tracker {hidden}", "boilerplate": "[]"}
    return Model(about | {"calibration": "[]", "model": model_key(settings, matching, b"")}, b"")


def build(folder, corpus, hidden=16, target_precision=0.8):
    """Brings the index in a folder to the state of a corpus."""
    folder.mkdir(exist_ok=True)
    read = tiny_reader(hidden)
    store = IndexStore(folder / FILE)
    try:
        return synchronise(store, corpus, stored_model(hidden, target_precision), lambda rows: read_rows(read, rows))
    finally:
        store.close()
