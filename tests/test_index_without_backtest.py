"""The command of the index without a backtest: the default ranker, and the encoder that the command names."""

import sys

import pytest

import gedbd.commands.index
from gedbd.triage.stored_index import open_index


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Runs the command in a folder of its own, whose path it gives."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def through(*options):
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        gedbd.commands.index.main()
        return tmp_path

    return through


def test_the_default_model_searches_and_suggests_nothing(index, capsys):
    folder = index("dataset=demo", "encoder=tiny", "out=stored")
    told = " ".join(capsys.readouterr().out.split())
    assert "Nothing is suggested automatically: the probabilities were learnt from other trackers," in told
    assert "but gedbd backtest has not measured them here." in told
    assert "stored: 425 added, 0 updated, 0 unchanged, 0 deleted" in told
    opened = open_index(folder / "stored", str(folder / "cache"))
    found = opened.search(opened.get("2395"))
    assert "2395" not in [match.best.issue_id for match in found]
    assert 0 < found[0].probability < 1
    assert opened.target.threshold is None
    opened.close()


@pytest.mark.parametrize("option", ["encoder=tiny", "encoder.max_tokens=20", "text=fields"])
def test_a_backtest_brings_its_encoder_and_text(index, tmp_path, option):
    with pytest.raises(
        SystemExit, match=f"^error: {option}: run= already sets the encoder and text, from its backtest"
    ):
        index("run=tested", option, "out=stored")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_without_weights_is_refused(index):
    with pytest.raises(SystemExit, match=r"^error: encoder=untrained has neither weights nor a tokenizer before it"):
        index("dataset=demo", "encoder=untrained", "out=stored")
