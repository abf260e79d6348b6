"""Every command that docs/guides/localization.md measures with, in its order, on a small repository and its reports."""

import re
import shlex
from pathlib import Path

import pytest
from small_repository import NAMES, make_repository, write_published, write_reports

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "localization.md").read_text(encoding="utf-8")
MEASURING = PAGE.partition("\n## Measure it on your tracker\n")[2]
BLOCKS = re.findall(r"^```bash\n(.*?)^```", MEASURING, flags=re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("#")]


@pytest.mark.slow  # five commands; each has quick tests of its own
@pytest.mark.no_cover
def test_the_commands_of_the_page_lead_to_suspect_commits(run_command, tmp_path):
    def give(command):
        program, name, *options = shlex.split(command)
        assert program == "gedbd"
        return " ".join(run_command(name, *options).split())

    names = ["describe", "locate-backtest", "locate", "describe", "locate-backtest"]
    assert [command.split()[1] for command in COMMANDS] == names
    ids = make_repository(tmp_path / "my-project")
    write_reports(tmp_path / "issues.csv")
    write_published(tmp_path / "Tomcat.xml", ids)
    described, backtest, locate, *published = COMMANDS
    told = give(described)
    assert "my-project" in told
    assert "27" in told
    told = give(backtest)
    (run,) = (tmp_path / "outputs" / "my-project" / "locate_backtest").iterdir()
    found = [
        re.search(rf"On the history of my-project, {what} was among .*? was met\.", told)
        for what in ("a file that the fix changed", "an inducing commit")
    ]
    assert all(found)
    assert f"run=outputs/my-project/locate_backtest/{run.name}" in told
    told = give(locate.replace("RUN", run.name).replace("Saving twice", f"{NAMES[5]}Reader"))
    assert all(statement[0] in told for statement in found)
    assert ids[16][:10] in told  # the inducing commit of the sixth bug
    assert "Ada" not in told
    assert "my-project" in give(published[0])
    assert "a file that the fix changed was among the first 10 for 100%" in give(published[1])


def test_the_page_names_options_that_exist():
    conf = Path(__file__).parents[1] / "conf"
    options = set(re.findall(r"^(\w+):", (conf / "locate_backtest.yaml").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`(target|min_reports|fix_patterns|fixes|suffixes|max_diff_chars|max_files)\b", PAGE))
    assert len(named) == 7
    assert named <= options
