"""Every command line of README, CONTRIBUTING and docs runs, or is listed with the reason why it does not."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import endpoint, told
from manual_lines import (
    ALL_PAGES,
    PAGES,
    ROOT,
    ask_service,
    blocks_of,
    lines_of,
    run_in_bash,
    run_line,
    with_options,
    with_run_folders,
)
from scenarios import NOT_RUN, REASONS, SCENARIOS


@pytest.fixture
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder, a shell with the environment of these tests, and no server but one on this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("GEDBD_TOKEN", "GITHUB_TOKEN", "GITHUB_WEBHOOK_SECRET", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    with endpoint(monkeypatch, lambda request: told("50")):
        yield


@pytest.mark.integration
@pytest.mark.usefixtures("_environment")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if scenario.quick else [pytest.mark.slow]) for page, scenario in SCENARIOS.items()],
)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = SCENARIOS[page]
    for write in scenario.files:
        write(tmp_path)
    for line in (*scenario.before, *lines_of(page)):
        if line in REASONS:
            continue
        if line in scenario.by_hand:
            run_in_bash(with_run_folders(scenario.by_hand[line]))
        if line.startswith("export "):
            name, value = line.removeprefix("export ").split("=", maxsplit=1)
            monkeypatch.setenv(name, run_in_bash(f"echo {value}").strip())
        elif line.startswith("curl "):
            ask_service(line)
        else:
            run_line(with_options(line, scenario.options))


def test_every_line_is_run_or_has_a_reason_why_not() -> None:
    left = [line for page in PAGES if page not in SCENARIOS for line in lines_of(page) if line not in REASONS]
    assert left == [], "tests/helpers/scenarios.yaml says how a page runs, and what does not"


def test_the_lists_name_lines_that_the_manual_has() -> None:
    assert set(REASONS) <= {line for page in PAGES for line in lines_of(page)}
    assert len(REASONS) == sum(map(len, NOT_RUN.values()))
    for page, scenario in SCENARIOS.items():
        lines = [line for line in (*scenario.before, *lines_of(page)) if line not in REASONS]
        assert set(scenario.by_hand) <= set(lines)
        for beginning in scenario.options:
            assert any(f"{line} ".startswith(f"{beginning} ") for line in lines), f"{page}: {beginning}"


def test_all_commands_are_in_bash_blocks() -> None:
    languages = [language for page in ALL_PAGES for language, _ in blocks_of(page)]
    assert set(languages) == {"bash", "python", "yaml", "json", "text"}
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in ALL_PAGES]
    assert languages.count("bash") == sum(text.count("```bash") for text in texts)


def test_options_replace_those_of_the_manual() -> None:
    options = {"gedbd train": "encoder=tiny", "gedbd train -m": "seeds=1", "gedbd tra": "no=1"}
    words = with_options('gedbd train -m encoder=a,b encoder.name=x seeds=3 "one two"', options)
    assert words == ["gedbd", "train", "-m", "encoder.name=x", "one two", "encoder=tiny", "seeds=1"]
