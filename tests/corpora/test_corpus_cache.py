import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora import corpus_cache
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.corpus_cache import MIN_BYTES, cached_corpus
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.io.files import CONF_DIR

REPORTS = 40
LONG = "the editor is slow, 日本 " * (MIN_BYTES // REPORTS // 20)
HEADER = ("Issue_id", "Title", "Description", "Created_time", "Resolved_time", "Duplicated_issue")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Reports in descending order, some of them duplicates, some resolved."""
    path = tmp_path / "bugs.csv"
    write_export(path, "crash")
    return path


def write_export(path: Path, title: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        for number in range(REPORTS, 0, -1):
            day = f"2024-01-{number % 28 + 1:02}"
            resolved = "2024-03-01 10:30" if number % 3 else ""
            rows.writerow([number, f"{title} {number}", LONG, day, resolved, number - 1 if number % 5 == 0 else ""])
    assert path.stat().st_size > MIN_BYTES


def dataset(export: Path, **options: object) -> DictConfig:
    cfg = OmegaConf.load(Path(CONF_DIR) / "dataset" / "csv.yaml")
    return OmegaConf.merge(cfg, {"path": str(export), **options})


def check_equal(corpus: Corpus, expected: Corpus) -> None:
    for table, other in ((corpus.reports, expected.reports), (corpus.links.table, expected.links.table)):
        pd.testing.assert_frame_equal(table, other, check_index_type="exact", check_column_type="exact")
        assert [type(table[name].array) for name in table] == [type(other[name].array) for name in other]
    assert corpus.group.dtype == expected.group.dtype
    assert corpus.group.flags.writeable
    np.testing.assert_array_equal(corpus.group, expected.group)
    assert (corpus.name, corpus.warnings) == (expected.name, expected.warnings)
    assert corpus.image_dir == expected.image_dir
    assert corpus.url_template == expected.url_template
    assert corpus.fingerprint == expected.fingerprint
    assert len(corpus.links.relevant(9)) == len(expected.links.relevant(9))


def stored(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("options", [{}, {"last_n": 20, "url_template": "https://bugs.example.org/{issue_id}"}])
def test_a_corpus_from_the_cache_equals_the_one_that_is_read(export, tmp_path, options):
    expected = read_corpus(dataset(export, **options))
    check_equal(read_corpus(dataset(export, **options), tmp_path / "cache"), expected)
    (file,) = stored(tmp_path / "cache")
    written = file.stat().st_mtime_ns
    check_equal(read_corpus(dataset(export, **options), tmp_path / "cache"), expected)
    assert file.stat().st_mtime_ns == written


def fail() -> Corpus:
    raise AssertionError("the export is parsed")


@pytest.mark.parametrize(("length", "place"), [(0, None), (1_000_000, None), (None, 100)])
def test_a_short_file_or_a_flipped_bit_is_found_and_the_file_written_again(export, tmp_path, length, place):
    folder = tmp_path / "cache"
    expected = read_corpus(dataset(export), folder)
    (file,) = stored(folder)
    content = bytearray(file.read_bytes())[:length]
    if place is not None:
        content[place] ^= 0b100
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=rf"is damaged \(.*\): {export} is read again"):
        check_equal(read_corpus(dataset(export), folder), expected)
    (file,) = stored(folder)
    written = file.stat().st_mtime_ns
    check_equal(read_corpus(dataset(export), folder), expected)
    assert file.stat().st_mtime_ns == written


def test_a_changed_export_is_read_and_replaces_the_old_file(export, tmp_path):
    read_corpus(dataset(export), tmp_path / "cache")
    old = stored(tmp_path / "cache")
    times = export.stat()
    write_export(export, "crush")
    os.utime(export, ns=(times.st_atime_ns, times.st_mtime_ns))  # neither size nor time tells the two apart
    assert export.stat().st_size == times.st_size
    assert read_corpus(dataset(export), tmp_path / "cache").reports["title"].iloc[0].startswith("crush")
    assert len(stored(tmp_path / "cache")) == 1
    assert stored(tmp_path / "cache") != old


def test_an_export_that_changes_while_it_is_read_is_not_kept(export, tmp_path):
    def read() -> Corpus:
        corpus = read_corpus(dataset(export))
        write_export(export, "crush")
        return corpus

    assert cached_corpus(read, {}, [export], tmp_path / "cache").reports["title"].iloc[0].startswith("crash")
    assert not stored(tmp_path / "cache")


def test_other_options_have_a_file_of_their_own(export, tmp_path):
    assert len(read_corpus(dataset(export), tmp_path / "cache")) == REPORTS
    assert len(read_corpus(dataset(export, last_n=7), tmp_path / "cache")) == 7
    assert len(read_corpus(dataset(export), tmp_path / "cache")) == REPORTS
    assert len(stored(tmp_path / "cache")) == 2


@pytest.mark.parametrize(("module", "name"), [(corpus_cache, "version"), (pd, "__version__")])
def test_another_version_reads_the_export(export, tmp_path, monkeypatch, module, name):
    corpus = read_corpus(dataset(export))
    cached_corpus(lambda: corpus, {}, [export], tmp_path / "cache")
    check_equal(cached_corpus(fail, {}, [export], tmp_path / "cache"), corpus)
    monkeypatch.setattr(module, name, "9.9.9" if name == "__version__" else lambda package: "9.9.9")
    corpus_cache._version.cache_clear()
    with pytest.raises(AssertionError, match="is parsed"):
        cached_corpus(fail, {}, [export], tmp_path / "cache")
    corpus_cache._version.cache_clear()


def test_a_corpus_of_several_files_is_kept_until_one_of_them_changes(export, tmp_path):
    """The reports of bughub lie beside files of labels."""
    folder = tmp_path / "data" / "Small"
    folder.mkdir(parents=True)
    export.rename(folder / "reports.csv")
    labels = folder / "train.csv"
    labels.write_text("Issue_id,Duplicate\n3,2\n")
    cfg = OmegaConf.load(Path(CONF_DIR) / "dataset" / "eclipse.yaml")
    cfg = OmegaConf.merge(cfg, {"data_dir": str(tmp_path / "data"), "folder": "Small", "subset": "all", "rows": None})
    expected = read_corpus(cfg)
    check_equal(read_corpus(cfg, tmp_path / "cache"), expected)
    check_equal(read_corpus(cfg, tmp_path / "cache"), expected)
    old = stored(tmp_path / "cache")
    labels.write_text("Issue_id,Duplicate\n3,1\n")
    assert read_corpus(cfg, tmp_path / "cache").group.tolist() != expected.group.tolist()
    assert len(old) == len(stored(tmp_path / "cache")) == 1
    assert stored(tmp_path / "cache") != old


def test_a_small_export_is_not_kept(tmp_path):
    export = tmp_path / "bugs.csv"
    export.write_text("Issue_id,Title,Duplicated_issue\n1,crash,\n")
    assert len(read_corpus(dataset(export), tmp_path / "cache")) == 1
    assert not stored(tmp_path / "cache")


@pytest.mark.parametrize("value", ["\udc80", None, 5, ["a", "b"]], ids=repr)
def test_a_corpus_that_would_change_in_the_file_is_not_kept(export, tmp_path, value):
    corpus = read_corpus(dataset(export))
    odd = corpus.reports.assign(version=pd.Series([value] * REPORTS, dtype=object))
    corpus = replace(corpus, documents=replace(corpus.documents, table=odd))
    for _ in range(2):
        assert cached_corpus(lambda: corpus, {}, [export], tmp_path / "cache") is corpus
    assert not stored(tmp_path / "cache")


def test_a_folder_that_cannot_be_written_is_told_and_not_needed(export, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(UserWarning, match="bugs.csv cannot be cached there") as warned:
        check_equal(read_corpus(dataset(export), tmp_path / "cache"), read_corpus(dataset(export)))
    assert not [warning for warning in warned if "damaged" in str(warning.message)]
