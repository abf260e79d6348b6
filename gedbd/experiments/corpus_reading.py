"""Reads the corpus of a command that needs one table of reports, or a history of changes."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.allowed_targets import loaded_models
from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.corpora.corpus_cache import cached_corpus
from gedbd.io.console import print_detail

PACKAGE = "gedbd."  # only its own readers are cached: others may read files that no option names


def read_corpus(dataset: DictConfig, cache_dir: str | None = None) -> Corpus:
    """The corpus of the section ``dataset``.

    Args:
        dataset: The section.
        cache_dir: Folder of parsed corpora, see ``cached_corpus``; None to read the corpus each time.

    Raises:
        ValueError: If the section names a history of changes; raised before reading if the reader annotates its return
            type.
    """
    source = dataset.get("path") or dataset["_target_"]
    refusal = ValueError(
        f"{source}: this is a history of changes, but this command needs a table of reports: "
        "gedbd describe shows it; choose another dataset="
    )
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is ChangeCorpus:
        raise refusal
    # A reader reads the files and folders that its options name.
    names = [dataset.get("path"), dataset.get("links")]
    if "data_dir" in dataset:
        names.append(Path(dataset.data_dir) / dataset.folder)
    paths = [Path(str(name)).expanduser() for name in names if name is not None]
    exports = [path for path in paths if path.exists()]
    if cache_dir is not None and exports and dataset["_target_"].startswith(PACKAGE):
        options: Any = OmegaConf.to_container(dataset, resolve=True)
        return cached_corpus(partial(instantiate, dataset), options, exports, cache_dir)
    corpus: Corpus | ChangeCorpus = instantiate(dataset)
    if isinstance(corpus, ChangeCorpus):
        raise refusal
    return corpus


def print_fields(console: Console, corpus: Corpus) -> None:
    """Prints how the fields of the reports were read, if the reader says so, unless ``-q`` is given."""
    if corpus.documents.fields:
        print_detail(console, f"{corpus.name}: {corpus.documents.fields_line}")


def training_notices(section: DictConfig, reports: pd.DataFrame) -> tuple[str, ...]:
    """Lines for the user about the encoders in a section that were trained on the tracker of these reports."""
    plain = {"section": OmegaConf.to_container(section, resolve=True)}
    encoders = [OmegaConf.select(OmegaConf.create(plain), key.rpartition(".")[0]) for key, _ in loaded_models(plain)]
    lines = []
    for encoder in encoders:
        if encoder.get("adapter") is not None:
            from gedbd.encoders.adapter_list import AdapterList  # it imports torch

            lines.append(AdapterList.read(encoder.adapter).notice(reports, encoder.get("without")))
    return tuple(filter(None, dict.fromkeys(lines)))


def read_changes(dataset: DictConfig) -> ChangeCorpus:
    """The history of changes of the section ``dataset``; raises ValueError if it names a table of reports."""
    source = dataset.get("path") or dataset["_target_"]
    refusal = ValueError(
        f"{source}: this is a table of reports, but this task needs a history of changes: choose dataset=localization,"
        " or dataset=git with reports"
    )
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is Corpus:
        raise refusal
    corpus: Corpus | ChangeCorpus = instantiate(dataset)
    if isinstance(corpus, Corpus):
        raise refusal
    return corpus
