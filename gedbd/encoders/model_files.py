"""The files of a model: in a folder, downloaded, on the hub, or in an installed package.

The files of a model are untrusted. They only select an architecture of transformers: their code is never run, and no
other model, adapter or compiled kernel that they name is fetched.
"""

import json
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from gedbd.io.checksums import checksum
from gedbd.io.console import first_line
from gedbd.io.files import CONF_DIR, check_regular_files

HUB_TIMEOUT_S = 5
Loaded = TypeVar("Loaded")


class RefusedModelError(ValueError):
    """A model that gedbd cannot use, with a message that says why and what to do."""


def local_first(section: str, name: str, source: str, read: Callable[[bool], Loaded]) -> Loaded:
    """Calls ``read(local_files_only)``, first locally, then with the hub.

    Args:
        section: The config group of the model, for messages.
        name: The choice in that group.
        source: A folder, or a name on the hub.
        read: Loads from it; raises OSError or ValueError if files are missing, RefusedModelError if all are there.

    Raises:
        ValueError: If it cannot be loaded.
    """
    is_folder = Path(source).is_dir()
    check_regular_files(Path(source))
    try:
        if _is_path(source) and not is_folder:
            raise RefusedModelError(f"{section}.model={source}: there is no such folder")
        try:
            return read(True)
        except (OSError, ValueError) as error:
            if is_folder or isinstance(error, RefusedModelError):
                raise
        check_hub(section, source)
        # Otherwise transformers asks a service on the hub to convert models that have no safetensors.
        os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
        return read(False)
    except RefusedModelError as error:
        raise RefusedModelError(f"{section}={name}: {error}") from error
    except ImportError as error:
        raise ValueError(
            f"{section}={name}: {source} needs a package that is missing: {problem_of(error)}. Install it;"
            " torchvision must be built for the installed torch"
        ) from error
    except Exception as error:  # damaged files make transformers and tokenizers raise errors of any type
        if is_folder:
            subject, cure = source, f"Save or download it again, or set {section}.model=<folder> to another one"
        else:
            subject = f"{source}, which is not a folder here"
            cure = f"Without access to the hub, download it elsewhere and set {section}.model=<folder>"
        raise ValueError(f"{section}={name}: cannot load {subject}: {problem_of(error)}. {cure}") from error


def problem_of(error: Exception) -> str:
    """The first line of an error's message without its full stop, or the error's type."""
    line = first_line(error).rstrip(".") or type(error).__name__
    # PyTorch goes on with how to run that code.
    return "its weights are a pickle with more than tensors" if line.startswith("Weights only load failed") else line


def _is_path(model: str) -> bool:
    """Whether a model is a path: names on the hub have at most one slash, and do not begin with one."""
    return model.startswith(("/", ".", "~")) or model.count("/") > 1


def check_hub(section: str, model: str) -> None:
    """Raises RefusedModelError if the hub cannot be reached, as its client would retry for more than a minute."""
    reason = hub_problem()
    if reason is None:
        return
    folder = model.rpartition("/")[2]
    hint = f"; without a download: encoder={' or '.join(encoders_at_hand())}" if section == "encoder" else ""
    raise RefusedModelError(
        f"{model} is not on this machine, neither a folder nor a download, and {reason}: run `hf download {model}"
        f" --local-dir {folder}` elsewhere, copy the folder, and set {section}.model=./{folder}{hint}"
    )


def hub_problem() -> str | None:
    """Why the hub is not available; None if it is."""
    import requests
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        requests.head(constants.ENDPOINT, timeout=HUB_TIMEOUT_S)
    except requests.RequestException:
        return f"{constants.ENDPOINT} cannot be reached"
    return None


def encoders_at_hand() -> list[str]:
    """The choices of ``conf/encoder`` whose weights are on this machine."""
    names = []
    for name, options in presets():
        package = options.get("package")
        if (package and find_spec(package)) or (options.get("model") and is_downloaded(options.model)):
            names.append(name)
    return [*names, "tiny"]  # has random weights


def presets() -> Iterator[tuple[str, Any]]:
    """Name and options of each file in ``conf/encoder``."""
    from omegaconf import OmegaConf

    for file in sorted(Path(CONF_DIR).glob("encoder/*.yaml")):
        yield file.stem, OmegaConf.load(file)


def is_downloaded(model: str) -> bool:
    """Whether a model of the hub was downloaded to this machine."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json"), str)


def local_source(model: str) -> str | None:
    """What a model is read from without the hub: its folder, its name if downloaded, or a package; None if absent."""
    if Path(model).is_dir():
        return model
    if _is_path(model):
        return None
    if is_downloaded(model):
        return model
    packages = (options for _, options in presets() if options.get("packaged_model") == model)
    return next((packaged_weights(options.package, options.sha256) for options in packages), None)


def packaged_weights(package: str | None, sha256: str | None) -> str | None:
    """The folder of the weights in an installed package, with verified hash; the package is not imported."""
    if package and not package.isidentifier():
        # find_spec("a.b") imports a, so a dotted name could run code.
        raise ValueError(f"encoder.package={package} is not the name of a package")
    spec = find_spec(package) if package else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ValueError(f"package {package} has no weights at {weights}: reinstall or uninstall it")
    digest = checksum(weights)
    if digest != sha256:
        raise ValueError(
            f"the weights in package {package} have SHA-256 {digest} instead of {sha256}: reinstall or uninstall it"
        )
    return str(folder)


def read_json(model: str, name: str, local: bool) -> Any:
    """The content of a JSON file of a model; None if the model does not have it."""
    file = find_file(model, name, local)
    if file is None:
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged: it is not JSON ({error})") from error


def find_file(model: str, name: str, local: bool) -> Path | None:
    """A file of a model; None if it does not exist, or with ``local`` is not on this machine.

    What the hub's client raises instead, ``local_first`` explains.
    """
    if Path(model).is_dir():
        file = Path(model) / name
        return file if file.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(model, name, local_files_only=local))
    except EntryNotFoundError as error:
        if isinstance(error, LocalEntryNotFoundError) and not local:
            raise  # the hub does not answer
        return None
