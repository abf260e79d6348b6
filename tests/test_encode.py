"""Vectors of a corpus through their command, as a user gets them."""

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.integration

PREFIX = "encoder.prefix='query: '"
DEMO = str(files("gedbd.corpora") / "demo.csv")


def cosines(file, pairs: pd.DataFrame) -> np.ndarray:
    """Of pairs of reports, from a file of vectors."""
    with np.load(file) as found:
        rows = dict(zip(found["id"], found["vectors"], strict=True))
    both = zip(pairs["id_1"], pairs["id_2"], strict=True)
    return np.array([rows[str(one)] @ rows[str(two)] for one, two in both])


@pytest.mark.slow
def test_the_vectors_of_a_run_score_pairs_as_its_text_branch_does(run_command, tmp_path):
    run_command("train", "encoder=tiny", "trainer=smoke", "optimizer.lr=1e-2", PREFIX, "hydra.run.dir=trained")
    printed = run_command("encode", "run=trained", "out=vectors.npz")
    with np.load(tmp_path / "vectors.npz") as found:
        assert set(found) == {"id", "vectors"}
        assert sorted(found["id"]) == sorted(pd.read_csv(DEMO, dtype=str)["Issue_id"])
        assert found["vectors"].shape == (425, 16)
        assert found["vectors"].dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(found["vectors"], axis=1), 1, atol=1e-5)
    pairs = pd.read_parquet(tmp_path / "trained" / "predictions.parquet")
    assert cosines(tmp_path / "vectors.npz", pairs) == pytest.approx(pairs["score_text"].to_numpy(), abs=1e-5)
    assert "vectors.npz: 425 reports, 16 dimensions" in printed
    assert "reports/s" in printed
    other = pd.read_csv(DEMO).head(40).rename(columns={"Title": "Summary"})
    other.to_csv(tmp_path / "other.csv", index=False)
    more = ["dataset.path=other.csv", "dataset.columns.title=Summary", "backend=openvino"]
    run_command("encode", "run=trained", "out=other.npz", *more)
    with np.load(tmp_path / "other.npz") as part, np.load(tmp_path / "vectors.npz") as whole:
        rows = [list(whole["id"]).index(name) for name in part["id"]]
        assert len(rows) == 40
        np.testing.assert_allclose(part["vectors"], whole["vectors"][rows], atol=1e-5)


def test_without_a_run_the_encoder_is_the_untrained_one(run_command, tmp_path):
    run_command("encode", "encoder=tiny", "dataset=demo", "out=vectors.npz")
    with np.load(tmp_path / "vectors.npz") as found:
        assert found["vectors"].shape == (425, 32)
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "vectors.npz"}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["dataset=demo"], "out= is required, "),
        (["dataset=demo", "out=vectors.csv"], "out=vectors.csv must end in .npz"),
        (["dataset=demo", "out=file/vectors.npz"], "out=file/vectors.npz cannot be written"),
        (["run=nowhere", "out=vectors.npz"], "nowhere is not a run folder"),
        (["out=vectors.npz", "encoder=tiny"], "dataset.path= is required, "),
    ],
)
def test_mistakes_are_told_in_one_line(run_command, options, message):
    Path("file").touch()
    with pytest.raises(SystemExit, match=message):
        run_command("encode", *options)


def test_a_missing_backend_is_refused_before_anything_is_read(run_command, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    Path("empty.csv").touch()  # reading it would fail with another message
    with pytest.raises(SystemExit, match=r"pip install 'gedbd\[openvino\]'"):
        run_command("encode", "dataset=csv", "dataset.path=empty.csv", "backend=openvino", "out=vectors.npz")
