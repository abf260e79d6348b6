from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.screenshots import attached_images, images_in, read_captions, write_captions
from gedbd.io.table_files import check_writable


def table(folder: Path, content: str, name: str = "captions.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_attached_images_are_told_by_their_ending_in_order_without_repeats():
    texts = ["b.PNG; a.jpg ;b.PNG;;log.txt", "", "x.jpeg;y.GIF;z.bmp;w.WebP", "sub/ä b.png;png;.pngx", " ; "]
    found = attached_images(pd.Series(texts, index=range(5, 10), dtype=str))
    assert found == [["b.PNG", "a.jpg"], [], ["x.jpeg", "y.GIF", "z.bmp", "w.WebP"], ["sub/ä b.png"], []]
    assert attached_images(pd.Series([], dtype=str)) == []


def test_images_of_a_corpus_belong_to_the_first_report_that_attaches_them(make_corpus, tmp_path):
    corpus = make_corpus([0, 1, 2])
    corpus.reports["attachments"] = ["", "a.png;a.log", "b.png;a.png;b.log;a.log"]
    corpus = replace(corpus, image_dir=tmp_path)
    folder, images, warnings = images_in(corpus)
    assert folder == tmp_path
    assert list(images.items()) == [("a.png", "1001"), ("b.png", "1002")]
    assert warnings == ["attached files that are not images: 2, left out (first: a.log of report 1001)"]
    corpus.reports["attachments"] = ["a.png", "", ""]
    assert images_in(corpus)[2] == []


@pytest.mark.parametrize(
    ("attachments", "message"),
    [
        (" ; ", "small: no report attaches a file; set dataset.columns.attachments="),
        ("a.log;b.txt", r"small: none of the 2 attached files is an image \(first: a.log of report 1000\)"),
    ],
)
def test_a_corpus_without_images_is_refused(make_corpus, tmp_path, attachments, message):
    corpus = make_corpus([0, 1])
    corpus.reports["attachments"] = [attachments, ""]
    with pytest.raises(ValueError, match=r"small has no image folder: set dataset.image_dir="):
        images_in(corpus)
    corpus = replace(corpus, image_dir=tmp_path)
    with pytest.raises(ValueError, match=message):
        images_in(corpus)


def test_what_is_written_is_read_again(tmp_path):
    rows = [
        ("a, b.png", "ff", 'a window says "no"\nand stops', "described"),
        ("c.png", "", "", "missing"),
        ("NA", "00", "null", "described"),
    ]
    write_captions(tmp_path / "captions.csv", rows)
    assert read_captions(str(tmp_path / "captions.csv")) == {"a, b.png": 'a window says "no"\nand stops', "NA": "null"}
    written = pd.read_csv(tmp_path / "captions.csv", keep_default_na=False, dtype=str)
    assert list(written.columns) == ["image", "sha256", "caption", "status"]
    assert list(written.itertuples(index=False, name=None)) == rows
    write_captions(tmp_path / "captions.csv", rows[:1])
    assert len(read_captions(tmp_path / "captions.csv")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["captions.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,caption\na.png,x\n", "row 1: no column 'image'; the columns are name, caption"),
        ("image,text\na.png,x\n", "row 1: no column 'caption'; the columns are image, text"),
        ("image,caption\na.png,x\n ,y\n", "row 3, column 'image': the cell is empty"),
        (
            "image,caption\na.png,x\nb.png,y\na.png,z\n",
            "row 4, column 'image': 'a.png' has another caption in an earlier row",
        ),
        ("image,caption\n", "there are no rows below the header"),
    ],
)
def test_mistakes_in_a_table_are_told_with_their_place(tmp_path, content, message):
    path = table(tmp_path, content)
    with pytest.raises(ValueError, match=message) as raised:
        read_captions(path)
    assert str(raised.value).startswith(str(path))


def test_places_that_cannot_be_written_are_refused(tmp_path):
    check_writable(tmp_path / "captions.csv", ".csv", "a table")
    (tmp_path / "folder.csv").mkdir()
    for path, message in [
        (tmp_path / "captions.npz", "must end in .csv"),
        (tmp_path / "none" / "captions.csv", "cannot be written"),
        (tmp_path / "folder.csv", "cannot be written"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_writable(path, ".csv", "a table")
