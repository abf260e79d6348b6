from pathlib import Path

import pytest

from gedbd.io.files import corpus_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/eclipse.csv.xz", "eclipse"),
        ("/data/eclipse/Bugs.csv", "eclipse"),
        ("/data/csv.git", "csv"),
        ("/data/csv/.git", "csv"),
        ("/data/csv", "csv"),
    ],
)
def test_a_corpus_has_the_name_of_its_file_or_folder(path, name):
    assert corpus_name(Path(path)) == name
