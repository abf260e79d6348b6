"""Reads the corpus of a command that needs one table of reports, or a history of changes."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.corpus_cache import cached_corpus

# Readers of one export, whose option ``path`` names the only file they read, unless it is a folder.
OF_ONE_FILE = frozenset(
    f"gedbd.corpora.readers.{name}"
    for name in (
        "bugzilla.read_bugzilla",
        "csv_export.read_csv",
        "github.read_github",
        "gitlab.read_gitlab",
        "jira.read_jira",
    )
)


def read_corpus(dataset: DictConfig, cache_dir: str | None = None) -> Corpus:
    """The corpus of the section ``dataset``.

    Args:
        dataset: The section.
        cache_dir: Folder of parsed corpora, see ``cached_corpus``; None to read the corpus each time.

    Raises:
        ValueError: The section names a history of changes; raised before anything is read if the function that reads it
            says what it returns.
    """
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is ChangeCorpus:
        raise _is_history(dataset)
    export = Path(str(dataset.get("path"))).expanduser()
    if cache_dir is not None and dataset["_target_"] in OF_ONE_FILE and export.is_file():
        options: Any = OmegaConf.to_container(dataset, resolve=True)
        return cached_corpus(partial(instantiate, dataset), options, export, cache_dir)
    corpus: Corpus | ChangeCorpus = instantiate(dataset)
    if isinstance(corpus, ChangeCorpus):
        raise _is_history(dataset)
    return corpus


def read_changes(dataset: DictConfig) -> ChangeCorpus:
    """The history of changes of the section ``dataset``.

    Raises:
        ValueError: The section names a table of reports; raised before anything is read if the function that reads it
            says what it returns.
    """
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is Corpus:
        raise _is_table(dataset)
    corpus: Corpus | ChangeCorpus = instantiate(dataset)
    if isinstance(corpus, Corpus):
        raise _is_table(dataset)
    return corpus


def _is_table(dataset: DictConfig) -> ValueError:
    place = dataset.get("path") or dataset["_target_"]
    return ValueError(
        f"{place}: this is a table of reports, but this task needs a history of changes: choose dataset=localization,"
        " or dataset=git with reports"
    )


def _is_history(dataset: DictConfig) -> ValueError:
    place = dataset.get("path") or dataset["_target_"]
    return ValueError(
        f"{place}: this is a history of changes, but this command needs a table of reports: "
        "gedbd describe shows it; choose another dataset="
    )
