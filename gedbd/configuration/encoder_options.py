"""Options that an encoder takes from the files of its model, where nobody has set them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.allowed_targets import loaded_models
from gedbd.configuration.command_words import option_of, path_value
from gedbd.encoders.model_files import presets
from gedbd.encoders.model_options import encoder_option, model_options
from gedbd.io.files import CONF_DIR

SIZES = ("dim", "max_tokens")  # presets choose them for speed
DEFAULT_ENCODER = "bug_minilm"  # of search, backtests and baselines
OF_ADAPTERS = ("name", "adapter", "adapter_sha256", "without")  # options in which the default may differ from its base


def encoder_word(encoder: str | Path) -> str:
    """The option of a file in ``conf/encoder``, or of a model: a folder, or a name on the hub."""
    is_model = "/" in str(encoder) or Path(encoder).is_dir()
    return f"encoder.model={path_value(encoder)}" if is_model else f"encoder={encoder}"


def is_base_of_default(encoder: Mapping[str, Any]) -> bool:
    """Whether an encoder's options are those of the default encoder, except that it lacks the default's adapter."""
    default: Any = OmegaConf.load(f"{CONF_DIR}/encoder/{DEFAULT_ENCODER}.yaml")
    if default.get("adapter") is None or encoder.get("adapter") is not None:
        return False
    names = {*default.keys(), *encoder.keys()}.difference(OF_ADAPTERS)
    return all(encoder.get(name) == default.get(name) for name in names)


def take_model_options(cfg: DictConfig, words: Sequence[str]) -> list[str]:
    """Sets the options of encoders whose ``model`` is another one than that of their preset.

    The default preset describes the model that is installed with gedbd: another model has the options that its files
    state, except those that ``words`` or an experiment set. Any other preset is used as it is, and must not contradict
    the files of a model that ``words`` name, except in sizes.

    Args:
        cfg: The composed options of a command; changed in place.
        words: The options of the command line.

    Returns:
        A line for each encoder whose options changed.

    Raises:
        ValueError: If a model is not available or not supported, or the chosen preset contradicts its files.
    """
    typed = {option_of(word) for word in words}
    lines = []
    for key, model in loaded_models(OmegaConf.to_container(cfg, resolve=False)):
        section = key.removesuffix(".model")
        options = OmegaConf.select(cfg, section)
        is_default = options.get("packaged_model") not in (None, model)
        if not is_default and key not in typed:
            continue
        stated = {
            name: value
            for name, value in model_options(options.name, model).items()
            if f"{section}.{name}" not in typed
        }
        if is_default:
            preset = next(file for _, file in presets() if file.get("packaged_model") == options.packaged_model)
            # What differs from the preset, an experiment has set.
            stated = {name: value for name, value in stated.items() if options.get(name) == preset.get(name)}
            if options.get("adapter") is not None and f"{section}.adapter" not in typed:
                stated["adapter"] = None  # it belongs to the model of the preset
            for name, value in stated.items():
                OmegaConf.update(cfg, f"{section}.{name}", value, force_add=True)
            taken = [encoder_option(name, value, section) for name, value in stated.items() if value is not None]
            taken += ["the maximum length"] if stated.get("max_tokens", 0) is None else []
            lines.append(f"{key}={model}: its files set {', '.join(taken)}")
            continue
        for name, value in stated.items():
            if name not in SIZES and value != options.get(name):
                theirs, ours = (encoder_option(name, one, section) for one in (value, options.get(name)))
                raise ValueError(
                    f"{key}={model}: its files state {theirs}, and the preset {options.name} has {ours}: set one of"
                    f" the two, or leave out {section}={options.name}"
                )
    return lines
