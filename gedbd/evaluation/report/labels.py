"""Names settings by the options in which they differ from other settings of their kind and corpus."""

import os
from pathlib import Path
from typing import Any

from gedbd.evaluation.report.options import comparable
from gedbd.evaluation.run_folders import Run

CONTENTS_SHOWN = 8  # characters of a fingerprint
CHECKPOINTS = ("checkpoint", "val_checkpoint")
MAX_PATH_PARTS = 4  # of a path in a label; paths that agree in these are shown in full
MARKERS = ("name", "_target_", "model")


def named_options(runs: list[Run], options: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For every setting, the options that its label names, each with its value as shown.

    An option that differs is left out only if another one implies it: the dimension of an encoder if there is one
    encoder of each name, the options of a graph if there is one kind of graph.

    Args:
        runs: One run of every setting; all of one corpus, and all trainings or all one baseline.
        options: The counted options of every setting.
    """
    varied = _varied(options)
    implied = {name for name in varied if _is_implied(name, varied, runs, options)}
    in_label = set() if runs[0].is_baseline else {"encoder.name"}  # of the run: "minilm, text alone"
    labels = _shown([name for name in varied if name not in implied | in_label], options)
    # If two settings would have the same label, it names all options that differ.
    if len({(run.label, *label.items()) for label, run in zip(labels, runs, strict=True)}) < len(labels):
        return _shown(varied, options)
    return labels


def option_label(name: str, value: str) -> str:
    """An option in a label, such as ``graph.rule=knn``."""
    parts = name.split(".")
    if parts[0] == "baselines":
        parts = parts[2:]  # baselines.bm25.k1 -> k1
    if parts[-1] in ("_target_", "name") and len(parts) > 1:
        parts = parts[:-1]  # text._target_ -> text
    return f"{'.'.join(parts)}={value}"


def _varied(options: list[dict[str, Any]]) -> list[str]:
    """Names of the options whose values differ, in the order of the configuration."""
    names = {name: None for flat in options for name in flat}
    return [name for name in names if len({comparable(flat.get(name)) for flat in options}) > 1]


def _is_implied(name: str, varied: list[str], runs: list[Run], options: list[dict[str, Any]]) -> bool:
    values = [comparable(flat.get(name)) for flat in options]
    # The label of a run says whether it has a graph.
    if name.split(".")[0] in ("graph", "fusion") and _determines([run.method for run in runs], values):
        return True
    # The checkpoint of a baseline's encoder is that of its run.
    if name.rsplit(".", 1)[-1] in CHECKPOINTS and "run" in varied:
        return _determines([comparable(flat.get("run")) for flat in options], values)
    # With split=year the corpus ends with the test year, so that the year says what the corpus holds.
    years = [comparable(flat.get("split.year")) for flat in options]
    if name == "dataset.contents" and "split.year" in varied and _determines(years, values):
        return True
    for other in varied[: varied.index(name)]:
        if other.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1] and _equal_where_both(other, name, options):
            return True
    return any(
        _determines([comparable(flat.get(marker)) for flat in options], values)
        for marker in _markers(name)
        if marker in varied
    )


def _markers(name: str) -> list[str]:
    """The options ``MARKERS`` of the sections around an option, which say what each section is."""
    parts = name.split(".")
    sections = [".".join(parts[:length]) for length in range(1, len(parts))]
    markers = [f"{section}.{key}" for section in sections for key in MARKERS]
    return markers[: markers.index(name)] if name in markers else markers


def _determines(first: list[Any], second: list[Any]) -> bool:
    """Whether equal values in ``first`` always have equal values in ``second``."""
    return len(set(first)) == len(set(zip(first, second, strict=True)))


def _equal_where_both(first: str, second: str, options: list[dict[str, Any]]) -> bool:
    """Whether one option repeats another, as ``batches.batch_size=${batch_size}`` does."""
    having = [flat for flat in options if second in flat]
    return all(comparable(flat.get(first)) == comparable(flat[second]) for flat in having)


def _shown(names: list[str], options: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Values in few characters if all values still differ, else in full."""
    labels: list[dict[str, str]] = [{} for _ in options]
    for name in names:
        values = {comparable(flat[name]): flat[name] for flat in options if name in flat}
        for depth in range(1, MAX_PATH_PARTS + 1):
            shown = {key: _short(name, value, depth) for key, value in values.items()}
            if len(set(shown.values())) == len(shown):
                break
        if len(set(shown.values())) < len(shown):
            shown = {key: _text(value) for key, value in values.items()}
        if len(set(shown.values())) < len(shown):
            shown = {key: repr(value) for key, value in values.items()}
        for flat, label in zip(options, labels, strict=True):
            if name in flat:
                label[name] = shown[comparable(flat[name])]
    return labels


def _short(name: str, value: Any, depth: int) -> str:
    """A value in few characters: a class without its module, the last parts of a path, the start of a fingerprint."""
    text = _text(value)
    if name.endswith("_target_"):
        return text.rsplit(".", 1)[-1]
    if name == "dataset.contents":
        return text[:CONTENTS_SHOWN]
    is_path = isinstance(value, str) and (Path(value).suffix or value.startswith(("/", "~", ".")))
    # normpath: models/x/../mine is models/mine
    return "/".join(Path(os.path.normpath(value)).parts[-depth:]) if is_path else text


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_text(item) for item in value)}]"
    return str(value)
