import numpy as np
import pytest
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.data.text import title_description
from gedbd.matching.reading import ReportReader
from gedbd.models.encoder import load_tiny_encoder
from gedbd.models.engine import Torch


@pytest.fixture(scope="session")
def reader() -> ReportReader:
    """Reads with a tiny random encoder."""
    encoder, tokenizer = load_tiny_encoder(
        "tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0
    )
    encoder.eval()
    return ReportReader(encoder, tokenizer, 32, title_description, Torch().prepare(encoder), projected=False)


@pytest.fixture
def index(tmp_path, reader):
    """Twenty reports; 3, 13 and 7 are duplicates, and so are 5 and 15."""
    group = np.arange(20)
    group[[13, 7]], group[15] = 3, 5
    fill(tmp_path, as_corpus([some_report(number) for number in range(20)], group), reader)
    opened = open_folder(tmp_path, reader)
    yield opened
    opened.close()
