"""A resumed run takes its options from its folder."""

from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.allowed_targets import named_targets
from gedbd.configuration.option_types import plain_options, shown
from gedbd.configuration.saved_options import read_saved, saved_options
from gedbd.io.checksums import check_whole

MAY_DIFFER = ("ckpt_path", "seeds", "trainer", "logger", "patience", "cache_dir", "data_dir")
OF_THIS_MACHINE = ("cache_dir", "data_dir")  # other sections repeat them
SECTIONS = {"pairs": ["pairs", "batches", "batch_size"], "protocol": ["ranking"]}


def check_resumable(cfg: DictConfig) -> None:
    """Refuses to resume from a checkpoint whose run had other options.

    Raises:
        ValueError: If there is no such checkpoint, or a setting that shapes the model or its data differs.
    """
    if not Path(cfg.ckpt_path).is_file():
        raise ValueError(f"ckpt_path={cfg.ckpt_path}: there is no such file; a run keeps checkpoints/last.ckpt")
    now = OmegaConf.create(saved_options(cfg))
    _check_equal(now, _of_run(cfg), [str(key) for key in now if key not in MAY_DIFFER])


def resumed_options(
    cfg: DictConfig, given: Sequence[str], choices: Container[str], defaults: Callable[[], DictConfig]
) -> DictConfig:
    """The options of the run whose checkpoint is given, with those of the command line where they may differ.

    Options that the run does not have, because an older gedbd has trained it, keep their defaults.

    Args:
        cfg: The composed configuration, ``ckpt_path`` included.
        given: The command line: values (``patience=5``) and choices of files (``trainer=gpu``).
        choices: Names of the groups from which files are chosen.
        defaults: Composes the configuration without a command line.

    Raises:
        ValueError: If an option of the command line is not the run's, and must be.
    """
    now = OmegaConf.create(saved_options(cfg))
    saved = _of_run(cfg)
    resumed = now.copy()
    for key in saved.keys() & now.keys() - {"ckpt_path", "cache_dir"}:
        resumed[key] = saved[key]
    following = set(_interpolated(plain_options(cfg)))
    words = [(word, word.partition("=")[0].lstrip("+~")) for word in given]
    for _, option in words:
        section = (option.partition("@")[2] or option).partition(".")[0]
        if section not in MAY_DIFFER:
            _check_equal(now, saved, _keys(option, now), following)
        elif option in choices:
            resumed[section] = _chosen(now[section], saved.get(section), defaults()[section])
    for word, option in words:
        if option in choices or option.partition(".")[0] not in MAY_DIFFER or word.startswith("~"):
            continue
        OmegaConf.update(resumed, option, OmegaConf.select(now, option), force_add=True)
    _check_address(now, resumed)
    for name in OF_THIS_MACHINE:
        _repeat(resumed, name, saved.get(name), resumed[name])
    return resumed


def _check_address(now: DictConfig, resumed: DictConfig) -> None:
    """Raises ValueError if the run would join a Ray cluster that the command line does not name: see ``keep_local``."""
    address = OmegaConf.select(resumed, "backend.address")
    if address is not None and address != OmegaConf.select(now, "backend.address"):
        raise ValueError(
            f"ckpt_path={now.ckpt_path}: its run used the Ray cluster at {address}; to join it, give"
            f" backend=ray backend.address={address}"
        )


def _of_run(cfg: DictConfig) -> DictConfig:
    """The options of the run whose checkpoint a configuration names. It may name the targets of that configuration."""
    path = Path(cfg.ckpt_path)
    saved = read_saved(path.parent.parent, also=named_targets(plain_options(cfg)))
    check_whole(path)
    return OmegaConf.create(saved_options(saved))


def _keys(option: str, now: DictConfig) -> list[str]:
    """The options that an option of the command line sets; of ``experiment=``, any."""
    name = option.partition("@")[2] or option
    if name.partition(".")[0] in now:
        return SECTIONS.get(name, [name])
    return SECTIONS.get(name, [str(key) for key in now if key not in MAY_DIFFER])


def _interpolated(options: dict[str, Any], above: str = "") -> Iterator[str]:
    """Dotted names of options whose value follows another option."""
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _interpolated(value, f"{above}{name}.")
        elif isinstance(value, str) and "${" in value:
            yield f"{above}{name}"


def _check_equal(now: DictConfig, saved: DictConfig, keys: Sequence[str], passed: Container[str] = ()) -> None:
    """Raises ValueError for the first option that is another one than the run's.

    Options that the run does not have are passed over, and those that ``passed`` names.
    """
    for key in keys:
        if key.partition(".")[0] not in saved:
            continue
        for name, asked, used in _differences(key, OmegaConf.select(now, key), OmegaConf.select(saved, key)):
            if name in passed:
                continue
            raise ValueError(
                f"ckpt_path={now.ckpt_path}: its run had {name}={shown(used)}, this one has {shown(asked)}: leave the"
                " option out to take the run's, or start a new run"
            )


def _differences(name: str, asked: Any, used: Any) -> Iterator[tuple[str, Any, Any]]:
    """Options of a section that differ, its name first, with both values."""
    if not (OmegaConf.is_dict(asked) and OmegaConf.is_dict(used)):
        if asked != used:
            yield name, asked, used
        return
    for key in sorted(used, key=lambda key: key != "name"):
        yield from _differences(f"{name}.{key}", asked.get(key), used[key])


def _chosen(now: DictConfig, saved: DictConfig | None, defaults: DictConfig) -> DictConfig:
    """A section from a chosen file, with the run's value of each option that the file leaves at its default."""
    chosen = now.copy()
    for name in now:
        if saved and name in saved and name in defaults and now[name] == defaults[name]:
            chosen[name] = saved[name]
    return chosen


def _repeat(section: DictConfig, name: str, old: Any, new: Any) -> None:
    """Sets an option again in the sections that repeat it."""
    for key in section:
        if key == name and section[key] == old:
            section[key] = new
        elif OmegaConf.is_dict(section[key]):
            _repeat(section[key], name, old, new)
