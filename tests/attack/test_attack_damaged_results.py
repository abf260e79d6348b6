"""What a run has left or a cache keeps, and a disk has damaged, is told or made again, and never read as if whole."""

import json
import sqlite3
import subprocess
import zlib
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import flip, refuses
from rich.console import Console
from small_tracker import as_corpus, some_report

from gedbd.encoders.caches import cached_tokens, cached_vectors
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.experiments.callbacks import value_of_best
from gedbd.experiments.report.sweep_table import show_jobs
from gedbd.experiments.run_folder import Run, check_corpus
from gedbd.experiments.seeds import summarise_seeds
from gedbd.experiments.sweep_jobs import FINISHED, JobStatus, read_jobs, read_status, write_status
from gedbd.io.files import replacing, write_text
from gedbd.io.table_files import write_csv, write_parquet
from gedbd.triage.triage_model import TriageModel

RESULTS = pd.DataFrame({"method": ["text", "a, b"], "f1": [0.25, 0.5], "average_precision": [0.125, 0.0]})
CSV = {
    "results.csv": RESULTS,
    "ranking.csv": pd.DataFrame({"method": RESULTS["method"], "mrr": [0.5, 0.25]}),
    "metrics.csv": pd.DataFrame({"epoch": [0, 1], "val/f1": [0.25, 0.5], "val/loss": [1.0, 0.5]}),
}
PREDICTIONS = pd.DataFrame({"score": [0.5]})
READERS = {
    "results": lambda run: Run(run).results,
    "ranking": lambda run: Run(run).ranking,
    "metrics": lambda run: Run(run).epochs,
    "predictions": lambda run: Run(run).predictions,
    "fingerprint": lambda run: Run(run).fingerprint,
    "corpus": lambda run: check_corpus(run, as_corpus([some_report(1)])),
    "seeds": lambda run: summarise_seeds(run.parent, Console(quiet=True)),
    "status": read_status,
    "matching": lambda run: TriageModel.from_json((run / "matching.json").read_text(), "tested"),
    **{f"best {name}": lambda run, name=name: value_of_best(run, name, "val/f1") for name in ("val/f1", "val/loss")},
}
NO_OBJECT = ("", "{", "[]", "3", "{}")
DAMAGE = [
    ("metrics.csv", "epoch,val/f1\n0,0.5\n1,0.5x\n", "best val/f1", r", row 3: val/f1 is '0.5x', not a number"),
    ("metrics.csv", "epoch,val/loss\n0,0.5\n", "best val/loss", " is damaged: it has no column 'val/f1'"),
    ("results.csv", "method,f1,average_precision\ntext,0.2", "seeds", ", row"),
    *(
        ("predictions.parquet", content, "predictions", " is damaged: ")
        for content in (b"", b"PAR1", b"x" * 900, PREDICTIONS.to_parquet(index=False)[:-9])
    ),
    *(
        ("versions.json", content, reader, r" is damaged: it (holds no JSON|has no 'corpus')")
        for content in (*NO_OBJECT, "\0", "[" * 99_999)
        for reader in ("fingerprint", "corpus")
    ),
    *(
        ("status.json", content, "status", " is damaged")
        for content in (*NO_OBJECT, '{"state": "finished"}', '{"state": "finished", "overrides": 3}')
    ),
    *(("matching.json", content, "matching", "") for content in (*NO_OBJECT, '{"weights": {}}')),
]
TEXTS = ["crash on start", "the editor is slow", "no mail arrives", "window too small"]
ENCODED_AGAIN = r"is damaged \(.*\): it is deleted, and the texts are encoded again"


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run, as small as it can be."""
    folder = tmp_path / "seed_0"
    folder.mkdir()
    for name, table in CSV.items():
        write_csv(folder / name, table)
    write_parquet(folder / "predictions.parquet", PREDICTIONS)
    (folder / "leak.json").write_text('{"pairs": 0.5}')
    (folder / "versions.json").write_text('{"corpus": "a"}')
    (folder / "config.yaml").write_text("monitor: val/f1\n")
    return folder


def test_what_is_whole_is_read(run):
    pd.testing.assert_frame_equal(Run(run).results, RESULTS)
    assert value_of_best(run, "val/f1", "val/f1") == 0.5
    assert len(summarise_seeds(run.parent, Console(quiet=True))) == 2


@pytest.mark.parametrize("name", CSV)
def test_a_table_that_is_cut_off_anywhere_but_between_rows_is_told_with_its_row(run, name):
    whole = (run / name).read_bytes()
    for length in range(len(whole)):
        if whole[:length].endswith(b"\n") and length > len(whole.splitlines()[0]) + 1:
            continue
        (run / name).write_bytes(whole[:length])
        with refuses(rf"{name}(, row \d| is damaged: it holds no rows)"):
            READERS[name.removesuffix(".csv")](run)


@pytest.mark.parametrize(("name", "content", "reader", "message"), DAMAGE, ids=lambda value: str(value)[:30])
def test_a_damaged_file_is_told_with_its_name(run, name, content, reader, message):
    (run / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with refuses("^tested:? " if name == "matching.json" else f"seed_0/{name}{message}"):
        READERS[reader](run)


def test_a_table_of_results_without_its_last_rows_is_told(run):
    (run / "results.json").write_text(json.dumps(RESULTS.to_dict("records")))
    assert len(Run(run).results) == 2
    write_csv(run / "results.csv", RESULTS[:1])
    with refuses(r"results.csv has 1 rows and results.json 2: one of them is cut off"):
        READERS["results"](run)


def test_a_sweep_says_which_job_has_damaged_results(run, capsys):
    jobs = {run: JobStatus(FINISHED, ("seed=0",), 0.5, 1.0)}
    show_jobs(run.parent, jobs)
    (run / "results.csv").write_bytes((run / "results.csv").read_bytes()[:40])
    capsys.readouterr()
    show_jobs(run.parent, jobs)
    assert f"no results of {run}: {run}/results.csv, row 2" in capsys.readouterr().out
    assert list(pd.read_csv(run.parent / "summary.csv")["seed"]) == [0]


def test_a_damaged_job_is_named_and_the_others_go_on(tmp_path, capsys):
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        write_status(tmp_path / name, JobStatus(FINISHED, (f"seed={name}",)))
    (tmp_path / "0" / "status.json").write_text("{")
    assert [folder.name for folder in read_jobs(tmp_path)] == ["1"]
    assert f"left out: {tmp_path}/0/status.json is damaged" in capsys.readouterr().out


def test_what_fails_while_it_is_written_leaves_the_file_before(tmp_path):
    file = tmp_path / "a.csv"
    write_text(file, "before")
    file.chmod(0o640)

    def half():
        with replacing(file) as unfinished:
            unfinished.write_text("ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert file.read_text() == "before"
    write_text(file, "after")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_link_and_a_pipe_stay_what_they_are(tmp_path):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "after"
    write_text(Path("/dev/null"), "away")
    assert not Path("/dev/null").is_file()


def test_what_a_killed_process_has_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    with replacing(tmp_path / "a.csv") as unfinished:
        unfinished.write_text("a")
        process_id = unfinished.name.split(".")[-3]
    left, other = (tmp_path / unfinished.name.replace(process_id, str(number)) for number in (ended.pid, 1))
    for path in (left, other):
        path.touch()
    write_text(tmp_path / "a.csv", "b")
    assert not left.exists()
    assert other.exists()


@pytest.fixture
def encode(tiny, tmp_path):
    model, tokenizer = tiny
    return lambda: LoadedEncoder(model, tokenizer, 8, cache_dir=tmp_path).pool(TEXTS)


def only(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


@pytest.mark.parametrize("damage", ["a bit", "shorter", "a text"])
def test_a_damaged_vector_is_encoded_again(encode, tmp_path, damage):
    expected = encode()
    with closing(sqlite3.connect(only(tmp_path, "*.sqlite"))) as cache, cache:
        key, content = cache.execute("SELECT key, vector FROM vectors LIMIT 1").fetchone()
        flipped = bytes([content[0] ^ 1]) + content[1:]
        damaged = {"a bit": flipped, "shorter": content[:-9], "a text": "x"}
        cache.execute("UPDATE vectors SET vector = ? WHERE key = ?", (damaged[damage], key))
    with pytest.warns(UserWarning, match="1 damaged vectors are encoded again"):
        np.testing.assert_allclose(encode(), expected, atol=1e-6)
    np.testing.assert_allclose(encode(), expected, atol=1e-6)


@pytest.mark.parametrize("damage", ["empty", "half", "no database", "pages"])
def test_a_damaged_file_of_vectors_is_made_again(encode, tmp_path, damage):
    expected = encode()
    file = only(tmp_path, "*.sqlite")
    content = file.read_bytes()
    changed = {"empty": b"", "half": content[: len(content) // 2], "no database": b"x" * 9000}
    changed["pages"] = content[:1000] + b"\xff" * (len(content) - 1000)
    file.write_bytes(changed[damage])
    if damage != "empty":  # to SQLite this is a new database
        with pytest.warns(UserWarning, match=ENCODED_AGAIN):
            assert (encode() == expected).all()
    assert (encode() == expected).all()


def test_a_flipped_bit_among_token_numbers_is_found(tiny, tmp_path):
    table = cached_tokens(TEXTS, tiny[1], 8, tmp_path)
    ids = table.ids.tolist()
    file = only(tmp_path, "tokens-*")
    flip(file, file.read_bytes().index(table.ids.tobytes()), 0b100)
    with pytest.warns(UserWarning, match=r"is damaged \(it differs from its checksum\): the texts are tokenized again"):
        assert cached_tokens(TEXTS, tiny[1], 8, tmp_path).ids.tolist() == ids
    assert cached_tokens(TEXTS, tiny[1], 8, tmp_path).ids.tolist() == ids


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_neither_stored_nor_used(tmp_path, value):
    def encode_as(number):
        return lambda texts: iter([(np.arange(len(texts)), np.full((len(texts), 2), number, dtype=np.float32))])

    cached = partial(cached_vectors, tmp_path / "vectors.sqlite", 2, TEXTS)
    with refuses(r"not finite: choose another encoder= .*backend\.precision=float32"):
        cached(encode_as(value))
    assert cached(encode_as(1)).all()
    odd = np.full(2, value, dtype=np.float32).tobytes()
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite")) as database, database:
        database.execute("UPDATE vectors SET vector = ?", (odd + zlib.crc32(odd).to_bytes(4, "little"),))
    with pytest.warns(UserWarning, match="4 damaged vectors are encoded again"):
        assert np.isfinite(cached(encode_as(1))).all()
