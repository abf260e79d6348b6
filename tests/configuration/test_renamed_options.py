"""Old names of options and choices: each is refused in one line that gives the new one."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import gedbd.train  # noqa: F401  # its resolvers
from gedbd.configuration.locations import CONF_DIR
from gedbd.configuration.options import check_command_line
from gedbd.configuration.positional import literal_text, option_names
from gedbd.configuration.renamed_options import RENAMED_CHOICES, RENAMED_OPTIONS, new_name

OLD = {  # option -> a command that had it, with the choices that its section needs
    "baselines.frozen.max_tokens": ("baseline", "name=frozen"),
    "dataset.as_filed": ("describe", "dataset=github"),
    "dataset.columns.issue_id": ("train", "dataset=csv"),
    "dataset.newest": ("train", "dataset=csv"),
    "engine": ("search",),
    "filed_before": ("search",),
    "filed_from": ("search",),
    "most": ("backtest",),
    "optimizer.schedule": ("train",),
    "optimizer.warmup_steps": ("train",),
    "precision": ("backtest",),
    "webhook.precision": ("serve",),
}


def refusal(command, *options):
    with pytest.raises(ValueError, match="now called") as raised:
        check_command_line(CONF_DIR, command, options)
    return str(raised.value)


def test_every_renamed_option_is_tested():
    assert OLD.keys() == RENAMED_OPTIONS.keys()


@pytest.mark.parametrize("option", OLD)
@pytest.mark.quick_cases(4)
def test_an_old_option_names_the_new_one(option):
    command, *choices = OLD[option]
    assert refusal(command, *choices, f"{option}=1") == f"the option {option} is now called {RENAMED_OPTIONS[option]}"


@pytest.mark.parametrize("option", OLD)
def test_the_new_name_exists_in_the_command(option):
    command, *choices = OLD[option]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        section, _, last = RENAMED_OPTIONS[option].rpartition(".")
        cfg = compose(command, overrides=choices, return_hydra_config=True)
    assert last in (OmegaConf.select(cfg, section) if section else [*cfg, *cfg.hydra.runtime.choices])


@pytest.mark.parametrize("choice", RENAMED_CHOICES)
def test_an_old_choice_names_the_new_one(choice):
    assert refusal("train", choice) == f"{choice} is now called {RENAMED_CHOICES[choice]}"
    check_command_line(CONF_DIR, "train", [RENAMED_CHOICES[choice]])


def test_options_of_a_renamed_section_are_found_too():
    assert new_name("engine.workers", {"backend"}) == "backend.workers"
    assert new_name("precision", {"trainer"}) is None  # the command never had it
    assert new_name("seed", {"seed"}) is None


def test_a_search_names_the_new_option_before_hydra_reads_the_words():
    names = option_names(Path(CONF_DIR) / "search.yaml")
    with pytest.raises(ValueError, match=r"^the option filed_from is now called created_from$"):
        literal_text(["filed_from=2024-01-31"], "query", names)
    with pytest.raises(ValueError, match=r"^unknown option most"):
        literal_text(["most=3"], "query", names)
