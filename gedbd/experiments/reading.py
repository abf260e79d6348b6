"""Reads the corpus of a command that needs one table of reports, or a history of changes."""

import inspect

from hydra.utils import get_method, instantiate
from omegaconf import DictConfig

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus


def read_corpus(dataset: DictConfig) -> Corpus:
    """The corpus of the section ``dataset``.

    Raises:
        ValueError: The section names a history of changes; raised before anything is read if the function that reads it
            says what it returns.
    """
    if inspect.signature(get_method(dataset["_target_"])).return_annotation is ChangeCorpus:
        raise _is_history(dataset)
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
        f"{place}: one table of reports, where this task needs a history of changes: choose dataset=localization, or"
        " dataset=git with reports"
    )


def _is_history(dataset: DictConfig) -> ValueError:
    place = dataset.get("path") or dataset["_target_"]
    return ValueError(
        f"{place}: a history of changes, where this command needs one table of reports: "
        "gedbd describe shows it; choose another dataset="
    )
