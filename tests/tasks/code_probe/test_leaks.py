"""What probes and fine-tuning learn from does not depend on the methods that test them."""

from dataclasses import replace

import numpy as np
import torch

from gedbd.corpora.documents import Documents
from gedbd.corpora.splits import TEST, FileSplit, split_corpus
from gedbd.encoders.code.encoder import load_code_encoder
from gedbd.tasks.code_probe.data import SampleSizes, read_data
from gedbd.tasks.code_probe.encoding import ProbedEncoder


def test_changed_test_methods_change_nothing_that_is_learnt(java_corpus, make_run, tmp_path):
    parts = split_corpus(FileSplit(val=0.2, test=0.3), java_corpus)
    table = java_corpus.reports.copy()
    table.loc[parts == TEST, "description"] = "void other(int x, int y) { x = y; y = x; x = x + y; y = y - x; }"
    table.loc[parts == TEST, "comment"] = [f"Another method with number {row}." for row in range((parts == TEST).sum())]
    changed = replace(java_corpus, documents=Documents("java", table, more_texts=("comment",)))
    encoder = ProbedEncoder(load_code_encoder(make_run(tmp_path) / "encoder"), False, torch.device("cpu"))
    sizes = SampleSizes(200, 100, 200, 100, 8)
    one, other = (read_data(corpus, parts, [encoder], sizes, 16, 0) for corpus in (java_corpus, changed))
    assert one.tuning.queries == other.tuning.queries
    assert one.tuning.codes == other.tuning.codes
    for part in ("train", "val"):
        first, second = getattr(one, part), getattr(other, part)
        assert first.codes == second.codes
        np.testing.assert_array_equal(first.pairs.ends, second.pairs.ends)
        assert not set(first.rows) & set(np.flatnonzero(parts == TEST))
    assert one.test.codes != other.test.codes
