import pandas as pd
import pytest
from omegaconf import OmegaConf

from gedbd.corpora.corpus import ChangeCorpus, Documents
from gedbd.experiments.corpus_reading import read_corpus


def make_changes():  # without an annotation
    tables = [Documents("demo", pd.DataFrame({"id": [], "created_at": []})) for _ in range(3)]
    return ChangeCorpus("demo", None, *tables)


def make_other_changes(path) -> ChangeCorpus:
    raise AssertionError("nothing is read")


@pytest.mark.parametrize(
    ("name", "options", "place"),
    [
        ("make_changes", {}, "make_changes"),
        ("make_other_changes", {}, "make_other_changes"),
        ("make_other_changes", {"path": "repo/"}, "repo/"),
    ],
)
def test_a_history_is_refused_whether_its_function_says_so_or_not(name, options, place):
    with pytest.raises(ValueError, match=f"{place}: this is a history of changes, but this command needs a table"):
        read_corpus(OmegaConf.create({"_target_": f"{__name__}.{name}"} | options))
