import numpy as np
import pytest
from small_tracker import as_corpus, fill, open_folder, reader, some_report

__all__ = ["index", "reader"]


@pytest.fixture
def index(tmp_path, reader):
    """Twenty reports; 3, 13 and 7 are duplicates, and so are 5 and 15."""
    group = np.arange(20)
    group[[13, 7]], group[15] = 3, 5
    fill(tmp_path, as_corpus([some_report(number) for number in range(20)], group), reader)
    opened = open_folder(tmp_path, reader)
    yield opened
    opened.close()
