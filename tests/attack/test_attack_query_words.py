"""A text to search for that looks like an option, a flag or an interpolation stays a text."""

import random
import re
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from refusals import refuses

import gedbd.commands.search
from gedbd.configuration.command_words import literal_text
from gedbd.configuration.help import option_words

NAMES = option_words("search")
PARSER = OverridesParser.create()
HOSTILE = ["+hydra.callbacks.a={_target_:os.system,command:touch /tmp/taken}", "~backend", "crash\nfile=/etc/passwd"]
HOSTILE += ["query=${oc.env:HOME}", "${oc.env:HOME}", "--config-dir=/tmp and -m", "it's \\${oc.env:HOME}\\"]
HOSTILE += ["x = 3, [a], {b}: 'c"]
PIECES = ["'", '"', "\\", "${oc.env:HOME}", "\n", "=", ",", "[", "{", "+", "~", "-", "--", "--cfg", " ", "file", "@"]


def options_of(*words: str) -> dict[str, Any]:
    """All that Hydra reads of a command line, with interpolations resolved."""
    overrides = PARSER.parse_overrides(literal_text(["index=mine", *words], "query", NAMES))
    assert all(override.is_add() is override.is_delete() is False for override in overrides)
    options = OmegaConf.create({override.key_or_group: override.value() for override in overrides})
    return OmegaConf.to_container(options, resolve=True)


@pytest.mark.parametrize("text", HOSTILE)
def test_one_word_that_looks_like_more_is_the_text(text):
    assert options_of(text) == {"index": "mine", "query": text.removeprefix("query=")}


@pytest.mark.parametrize("text", [*HOSTILE, "-m", "--config-dir=/tmp", "file=/etc/passwd", "index=b", "--", "-h", ""])
def test_after_two_dashes_everything_is_text(text):
    assert options_of("top_k=3", "--", text) == {"index": "mine", "top_k": 3, "query": text}


def test_random_text_after_two_dashes_arrives_as_it_is():
    generator = random.Random(0)
    for _ in range(200):
        text = "".join(generator.choices(PIECES, k=generator.randint(1, 9)))
        assert options_of("--", text) == {"index": "mine", "query": text}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("-m", "-m could be a flag or part of the text: put flags first, then --"),
        ("component=Mail Window", "could be an option or part of the text"),
        ("file=/etc/passwd is readable", "could be an option or part of the text"),
        ("hydra.searchpath=[file:///tmp/evil]", "unknown option hydra.searchpath"),
        ("topk=3", "unknown option topk: did you mean top_k? To search for topk=3, write -- before the text"),
    ],
)
def test_what_could_be_either_is_refused(word, message):
    with refuses(re.escape(message)):
        literal_text(["index=mine", word], "query", NAMES)


def test_options_before_two_dashes_keep_hydras_syntax():
    words = ["index=mine", "component='Mail Window'", "+backend.x=1", "--cfg=job", "crash", "--", "-m"]
    kept = ["index=mine", "component='Mail Window'", "+backend.x=1", "--cfg=job", "query='crash -m'"]
    assert literal_text(words, "query", NAMES) == kept
    assert options_of("component='Mail Window'", "crash")["component"] == "Mail Window"


def test_the_command_reads_no_file_that_its_text_names(tmp_path, monkeypatch, capsys):
    (tmp_path / "secret").write_text("password")
    monkeypatch.setattr("sys.argv", ["gedbd", "index=none", "+file=secret"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"none: no index\.sqlite there"):
        gedbd.commands.search.main()
    assert "password" not in capsys.readouterr().out
