"""Reads the corpus of a command that needs one table of reports, or a history of changes."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.corpora.corpus_cache import cached_corpus

PACKAGE = "gedbd."  # what the readers of others read besides the files that their options name is not known


def read_corpus(dataset: DictConfig, cache_dir: str | None = None) -> Corpus:
    """The corpus of the section ``dataset``.

    Args:
        dataset: The section.
        cache_dir: Folder of parsed corpora, see ``cached_corpus``; None to read the corpus each time.

    Raises:
        ValueError: The section names a history of changes; raised before anything is read if the function that reads it
            annotates what it returns.
    """
    source = dataset.get("path") or dataset["_target_"]
    refusal = ValueError(
        f"{source}: this is a history of changes, but this command needs a table of reports: "
        "gedbd describe shows it; choose another dataset="
    )
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is ChangeCorpus:
        raise refusal
    # What a reader reads are the files and folders that its options name.
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


def read_changes(dataset: DictConfig) -> ChangeCorpus:
    """The history of changes of the section ``dataset``; ValueError for a table of reports, as in ``read_corpus``."""
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
