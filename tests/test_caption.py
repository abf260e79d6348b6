"""Captions of a corpus' screenshots through their command, as a user gets them."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import gedbd
from gedbd.corpora.screenshots import check_images, read_captions
from gedbd.encoders.captioning import Caption, cached_captions, describe
from gedbd.encoders.model_captioner import load_tiny_captioner, tiny_processor

pytestmark = pytest.mark.integration

TINY = {"name": "tiny", "prompt": "Describe the screenshot.", "max_new_tokens": 8, "hidden": 32, "layers": 1, "seed": 0}
KILLED = """
import os, signal
from pathlib import Path
from gedbd.corpora.screenshots import check_images
from gedbd.encoders.model_captioner import load_tiny_captioner
from gedbd.encoders.captioning import describe
images = check_images(sorted(path.name for path in Path().glob("*.png")), Path(), 1, 1)
batches = describe({image.sha256: image.path for image in images}, load_tiny_captioner(**%r), "cache", 3)
next(batches), next(batches)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def run(run_command):
    """Runs the command on reports that attach some files; gives the table that it writes."""

    def through(attachments: list[str], *options: str) -> pd.DataFrame:
        ids = [str(number) for number in range(1, len(attachments) + 1)]
        reports = pd.DataFrame({"Issue_id": ids, "Title": "t", "Duplicated_issue": "", "Attachments": attachments})
        reports.to_csv("tracker.csv", index=False)
        needed = ["dataset=csv", "dataset.path=tracker.csv", "captioner=tiny", "out=captions.csv"]
        print(run_command("caption", *needed, *options))
        return pd.read_csv("captions.csv", dtype=str, keep_default_na=False)

    return through


@pytest.fixture
def pictures(tmp_path) -> list[str]:
    """Ten different images beside the reports."""
    names = [f"{number}.png" for number in range(10)]
    for number, name in enumerate(names):
        Image.radial_gradient("L").resize((20 + 9 * number, 40)).convert("RGB").save(tmp_path / name)
    return names


def stored() -> list[tuple[int, str, str]]:
    """Row number in the order of writing, SHA-256 and caption of all that is kept."""
    with closing(sqlite3.connect("cache/captions.sqlite")) as cache:
        return list(cache.execute("SELECT rowid, sha256, caption FROM captions ORDER BY rowid"))


def texts(captions: dict[str, Caption]) -> dict[str, str]:
    assert not any(caption.problem for caption in captions.values())
    return {sha256: caption.text for sha256, caption in captions.items()}


def test_each_content_is_described_once_and_what_is_not_is_counted_and_named(run, pictures, tmp_path, capsys):
    (tmp_path / "again.PNG").write_bytes((tmp_path / "0.png").read_bytes())
    (tmp_path / "text.png").write_text("no image")
    whole = (tmp_path / "9.png").read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "halves.png").write_bytes(whole[: len(whole) // 2])
    Image.new("RGB", (600, 500)).save(tmp_path / "wide.png")
    attached = ["0.png;half.png;trace.log", "1.png; again.PNG;0.png", "", "text.png;../x.png;wide.png;none.png;2.png"]
    options = ["max_megapixels=0.2", "batch_size=2"]
    found = run([*attached, "halves.png;none.png"], *options).set_index("image")
    assert list(found.columns) == ["sha256", "caption", "status"]
    described = dict.fromkeys(("0.png", "1.png", "again.PNG", "2.png"), "described")
    broken = dict.fromkeys(("half.png", "text.png", "halves.png"), "broken")
    others = {"../x.png": "outside image_dir", "wide.png": "too large", "none.png": "missing"}
    assert found["status"].to_dict() == described | broken | others
    assert ((found["caption"] != "") == (found["status"] == "described")).all()
    assert found.loc["0.png", "caption"] == found.loc["again.PNG", "caption"]
    captions = read_captions("captions.csv")
    assert set(captions) == {"0.png", "1.png", "2.png", "again.PNG"}
    assert len(stored()) == 3
    printed = capsys.readouterr().out
    assert "images not described: 3 (broken; first: half.png of report 1, text.png of report 4, halves.png" in printed
    assert "images not described: 1 (missing; first: none.png of report 4)" in printed
    assert "images not described: 1 (too large; first: wide.png of report 4)" in printed
    assert "images not described: 1 (outside image_dir; first: ../x.png of report 4)" in printed
    assert "attached files that are not images: 1, left out (first: trace.log of report 1)" in printed
    assert re.search(r"captions.csv: 10 images, 4 of them different: 3 newly described .* 0 from .*; 6 not", printed)
    again = run([*attached, "halves.png;none.png"], *options, "batch_size=5").set_index("image")
    assert again.equals(found)
    printed = capsys.readouterr().out
    assert re.search(r"4 of them different: 0 newly described .* 3 from .*; 6 not described", printed)


@pytest.mark.slow  # two starts of a process
def test_a_killed_run_goes_on_where_it_was(run, pictures, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(gedbd.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED % TINY]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = stored()
    assert [row for row, _, _ in before] == [1, 2, 3, 4, 5, 6]
    resumed = run([";".join(pictures)], "batch_size=3")
    after = stored()
    assert after[:6] == before
    assert [row for row, _, _ in after] == list(range(1, 11))
    assert len({sha256 for _, sha256, _ in after}) == 10
    assert resumed["sha256"].tolist() == [sha256 for _, sha256, _ in after]
    assert resumed["caption"].tolist() == [caption for _, _, caption in after]
    afresh = run([";".join(pictures)], "cache_dir=afresh", "batch_size=10")
    assert afresh.equals(resumed)


def test_a_stopped_run_keeps_its_batches_and_no_image_is_asked_about_twice(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    captioner = load_tiny_captioner(**TINY)
    images = {image.sha256: image.path for image in check_images(pictures, tmp_path, 1, 1)}
    batches = describe(images, captioner, "cache", 4)
    first = next(batches)
    batches.close()
    assert cached_captions(captioner, "cache") == texts(first)
    (tmp_path / "3.png").unlink()
    waiting = {sha256: path for sha256, path in images.items() if sha256 not in first}
    rest = [batch for batch in describe(waiting, captioner, "cache", 4)]
    assert [len(batch) for batch in rest] == [4, 2]
    assert cached_captions(captioner, "cache") == texts(first | rest[0] | rest[1])
    assert cached_captions(load_tiny_captioner(**TINY | {"seed": 1}), "cache") == {}
    assert list(describe({}, captioner, "cache", 4)) == []


def test_images_may_lie_elsewhere_and_the_model_in_a_folder(run, pictures, tmp_path):
    first = run(["0.png;1.png"])
    (tmp_path / "images").mkdir()
    for name in pictures:
        (tmp_path / name).rename(tmp_path / "images" / name)
    load_tiny_captioner(**TINY).pipe.model.save_pretrained(tmp_path / "model")
    tiny_processor().save_pretrained(tmp_path / "model")
    options = ["captioner=smolvlm", "captioner.model=model", f"captioner.prompt={TINY['prompt']}"]
    options += ["captioner.max_new_tokens=8", "dataset.image_dir=images", "cache_dir=afresh"]
    assert run(["0.png;1.png"], *options).equals(first)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("attachments", "options", "message"),
    [
        ("0.png", ["out=captions.txt"], "out=captions.txt must end in .csv"),
        ("", [], "tracker: no report attaches a file"),
        ("a.log", [], r"tracker: none of the 1 attached files is an image \(first: a.log of report 1\)"),
        ("a.png;../b.png", [], r"nothing to describe: images not described: 1 \(missing; first: a.png of report 1\)"),
        ("0.png", ["captioner.prompt=''"], "captioner.prompt is empty"),
        ("0.png", ["cache_dir=tracker.csv"], "cache_dir=tracker.csv cannot be used"),
        ("0.png", ["cache_dir=damaged"], r"damaged/captions.sqlite is damaged \(file is not a database\): delete it"),
        ("0.png", ["cache_dir=folder"], "folder/captions.sqlite cannot be changed"),
    ],
)
def test_mistakes_are_told_in_one_line(run, pictures, tmp_path, attachments, options, message):
    (tmp_path / "folder" / "captions.sqlite").mkdir(parents=True)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "captions.sqlite").write_text("no database" * 100)
    with pytest.raises(SystemExit, match=message):
        run([attachments, ""], *options)
    assert not (tmp_path / "captions.csv").exists()
