"""Reports are read alike alone, in a batch, and by many threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_tracker import some_report

from gedbd.corpora.bug_report import Report, as_table
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.openvino_backend import OpenVino
from gedbd.triage.storage.stored_model import MAX_BATCH, BatchingEncoder, ReportEncoder


def test_vectors_are_unit_rows_and_do_not_depend_on_company(reader):
    reports = as_table([some_report(number, description="long " * number) for number in range(30)])
    vectors = reader(reports)
    assert vectors.shape == (30, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for row in (0, 13, 29):
        np.testing.assert_allclose(reader(reports.iloc[[row]])[0], vectors[row], atol=1e-6)


@pytest.mark.integration
@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_many_threads_get_their_own_answers(reader, backend, tmp_path):
    read = reader
    if backend == "openvino":
        own = reader.encoder
        encoder = LoadedEncoder(own.model, own.tokenizer, 32, OpenVino("float32", tmp_path))
        read = ReportEncoder(encoder, reader.text)
    reports = as_table([some_report(number) for number in range(60)])
    expected = reader(reports)
    together = BatchingEncoder(read)

    def ask(number):
        one = reports.iloc[[number]]
        return together(one).result() if number % 2 else read(one)[0]

    with ThreadPoolExecutor(12) as pool:
        vectors = np.stack(list(pool.map(ask, range(60))))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def titled(title):
    return as_table([Report(title)])


def test_all_that_wait_are_read_at_once():
    sizes, begun, go = [], threading.Event(), threading.Event()

    def read(reports):
        sizes.append(len(reports))
        begun.set()
        go.wait(10)
        return reports["title"].to_numpy(dtype=float)[:, None]

    together = BatchingEncoder(read)
    first = together(titled("0"))
    begun.wait(10)
    others = [together(titled(str(number))) for number in range(1, 40)]
    go.set()
    assert [future.result().tolist() for future in (first, *others)] == [[float(number)] for number in range(40)]
    assert sizes == [1, MAX_BATCH, MAX_BATCH, 39 - 2 * MAX_BATCH]


def test_everybody_hears_of_an_error_and_the_next_is_answered():
    fails = True

    def read(reports):
        if fails:
            raise RuntimeError("out of memory")
        return np.zeros((len(reports), 2))

    together = BatchingEncoder(read)
    for future in [together(titled("a")) for _ in range(8)]:
        with pytest.raises(RuntimeError, match="out of memory"):
            future.result(10)
    fails = False
    assert together(titled("a")).result(10).tolist() == [0, 0]
