import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from gedbd.configuration.locations import CONF_DIR
from gedbd.configuration.older_options import with_finders
from gedbd.configuration.saved_options import read_config


@pytest.mark.parametrize(
    ("protocol", "names"),
    [("earlier", ["earlier"]), ("test_pool", ["earlier", "test_pool"]), ("test_pool_alone", ["test_pool"])],
)
def test_a_list_of_protocols_in_an_older_run_reads_as_the_finders_of_today(tmp_path, protocol, names):
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        today = compose("train", overrides=[f"protocol={protocol}", "ranking.window_days=30"])
    ranking = OmegaConf.to_container(today.ranking, resolve=True)
    assert isinstance(ranking, dict)
    older = tmp_path / "config.yaml"
    OmegaConf.save(OmegaConf.create({"ranking": {**ranking, "protocols": names}}), older)
    assert OmegaConf.to_container(read_config(tmp_path)) == {"ranking": ranking}


def test_other_options_do_not_change():
    for options in ({"seed": 1}, {"ranking": None}, {"ranking": {"protocols": {"earlier": {"_target_": "x"}}}}):
        assert with_finders(options, "config.yaml") == options


def test_an_unknown_protocol_in_a_list_is_damage():
    with pytest.raises(ValueError, match=r"config.yaml is damaged: it names an unknown protocol of ranking, rm"):
        with_finders({"ranking": {"protocols": ["earlier", "rm"]}}, "config.yaml")
