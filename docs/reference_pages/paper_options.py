"""The table of all options in which the defaults and the paper's experiments differ, in a page of the manual.

``PYTHONPATH=docs python -m reference_pages.paper_options`` writes it again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.option_types import plain_options
from gedbd.configuration.options import register_resolvers
from gedbd.io.files import CONF_DIR
from reference_pages.docstrings import ROOT
from reference_pages.markdown import code, table
from reference_pages.option_files import as_text

PAGE = ROOT / "docs" / "methods" / "graph.md"
BLOCK = re.compile(r"(<!-- paper options -->\n).*?(<!-- end -->)", re.DOTALL)
ALIKE = ("encoder=bert", "dataset=eclipse")
COLUMNS = {
    "defaults": (),
    "`paper_text`": ("experiment=paper_text",),
    "`paper_code`": ("experiment=paper_code",),
    "`ours`": ("experiment=ours",),
}
# Options of a row, and where their values are stated, in the paper or its authors' code, or why the others differ.
REASONS = {
    ("dataset.subset",): "paper: Table 2 counts the training file, 68,124 of 85,156 reports",
    ("split",): "paper: not stated; code: 60/20/20 of the pairs, which leaks; ours: 60/20/20 by time, as in real use",
    ("pairs",): "code: in random order; paper: not stated; ours: pairs of a group together, to encode fewer texts",
    ("pairs.negatives_per_positive", "pairs.negatives_in_evaluation"): (
        "paper: section 5.2; code: random negatives only; ours: more in evaluation, for less variance"
    ),
    ("pairs.random_negatives", "pairs.fill_to"): "paper: section 5.2; code: from the name of its file of pairs",
    ("graph",): "paper: titles by BERT; code: drops the edge weights; defaults: titles by the run's own encoder",
    ("graph.features",): "paper: one-hot, replaced by [CLS] vectors; code: without their gradient; ours: text vectors",
    ("graph.dropout", "graph.bias"): "from the code; not stated in the paper",
    ("batch_size",): "paper and code: 64 pairs; defaults: recommended for BERT (Devlin et al.)",
    ("optimizer.head_lr",): "paper and code: one learning rate; ours: higher for layers that are not pretrained",
    ("monitor", "lock_threshold", "patience"): (
        "paper: states these; code: threshold of the best epoch, no early stopping; ours: a metric without a threshold"
    ),
    ("trainer.gradient_clip_val", "trainer.precision"): "code; not stated in the paper; `auto`: bfloat16 on a GPU",
    ("ranking.parts",): "paper and code do not rank; ours and auto: rank among all earlier reports",
}
# Options that follow from others in the table.
IMPLIED = re.compile(r"split\.|graph\.title|graph\.rule\.|callbacks\.|batches\.|bughub_|.*_target_")


def paper_options() -> list[str]:
    """The lines of the table, from the composed configurations."""
    register_resolvers()
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        found = [_values(compose("train", [*words, *ALIKE], return_hydra_config=True)) for words in COLUMNS.values()]
    names = {name for values in found for name in values}
    differing = {name for name in names if len({values.get(name, "") for values in found}) > 1}
    explained = {name for row in REASONS for name in row}
    if differing != explained:
        raise ValueError(f"REASONS must name the options that differ: {', '.join(sorted(differing ^ explained))}")
    rows = [
        [_codes(row), *(_codes(values.get(name, "") for name in row) for values in found), why]
        for row, why in REASONS.items()
    ]
    return table(("option", *COLUMNS, "where stated, or why"), rows)


def with_table(text: str) -> str:
    """A page with the table between its marks."""
    return BLOCK.sub(lambda match: match[1] + "\n".join(paper_options()) + match[2], text)


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(map(code, texts))


def _values(cfg: DictConfig) -> dict[str, str]:
    """Choices of groups and values of options, as they are typed."""
    choices = {group: str(choice) for group, choice in cfg.hydra.runtime.choices.items() if (group,) in REASONS}
    written = plain_options(cfg)["trainer"]["precision"]  # its resolver asks whether there is a GPU
    cfg.trainer.precision = "auto" if written.startswith("${") else written
    plain = OmegaConf.masked_copy(cfg, [str(name) for name in cfg if name != "hydra"])
    resolved: Any = OmegaConf.to_container(plain, resolve=True)
    return choices | {name: as_text(value) for name, value in _leaves(resolved) if not IMPLIED.match(name)}


def _leaves(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
