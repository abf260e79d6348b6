"""The table of all options in which the defaults and the paper's experiments differ, in a page of the manual.

``PYTHONPATH=docs python -m reference_pages.paper_options`` writes it again.
"""

import re
from collections.abc import Iterator, Mapping
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
# Where the values are stated, in the paper or its authors' code, or why the others differ.
REASONS = {
    "dataset.subset": "paper: Table 2 has the counts of the training file, 68,124 of 85,156 reports",
    "split": "paper: not stated; code: 60/20/20 of the pairs, which leaks; ours: 60/20/20 by time, as in use",
    "pairs": "code: pairs in random order; paper: not stated; ours: those of a group together, which encodes less",
    "graph": "paper: titles by BERT; code: drops the weights of the edges; defaults: titles by the run's own encoder",
    "ranking.parts": "paper and code rank nothing; ours and auto: among all earlier reports, as a search does",
    "batch_size": "paper and code: 64 pairs; defaults: recommended for BERT (Devlin et al.)",
    "pairs.negatives_per_positive": "paper: in proportion to the positives (section 5.2); code: random negatives only",
    "pairs.negatives_in_evaluation": "paper and code: as in training; ours: more negatives, less variance",
    "pairs.random_negatives": "paper: section 5.2, 5,000 in all",
    "pairs.fill_to": "code: the name of its file of pairs",
    "graph.features": "paper: one-hot, [CLS] vectors assigned; code: the same, detached; ours: the reports' vectors",
    "graph.dropout": "code; paper: not stated",
    "graph.bias": "code; paper: not stated",
    "graph.titles": "paper: bert-base-uncased; defaults: the run's own encoder, such as RoBERTa",
    "graph.rule.power": "paper: weights are similarities; code: every edge has weight 1",
    "optimizer.head_lr": "paper and code: one rate of 2e-5; ours: higher for weights that are not pretrained",
    "monitor": "paper and code: as here; ours: average precision needs no threshold",
    "lock_threshold": "code: F1 at the threshold of the best epoch so far",
    "patience": "paper: 3; code: all 5 epochs; ours: 2, of `encoder.fine_tuning`",
    "trainer.gradient_clip_val": "code: none; paper: not stated; ours: 1",
    "trainer.precision": "code: float32; paper: not stated; auto: bfloat16 on a GPU",
}
# Options that follow from others in the table.
IMPLIED = re.compile(r"split\.|graph\.titles\.(?!name)|graph\.title_encoders|callbacks\.|batches\.|bughub_|.*_target_")


def paper_options() -> list[str]:
    """The lines of the table, from the composed configurations."""
    register_resolvers()
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        found = [_values(compose("train", [*words, *ALIKE], return_hydra_config=True)) for words in COLUMNS.values()]
    names = {name for values in found for name in values}
    differing = {name for name in names if len({values.get(name, "") for values in found}) > 1}
    if differing != set(REASONS):
        raise ValueError(f"REASONS must name the options that differ: {', '.join(sorted(differing ^ set(REASONS)))}")
    rows = [[code(name), *(code(values.get(name, "")) for values in found), why] for name, why in REASONS.items()]
    return table(("option", *COLUMNS, "where stated, or why"), rows)


def with_table(text: str) -> str:
    """A page with the table between its marks."""
    return BLOCK.sub(lambda match: match[1] + "\n" + "\n".join(paper_options()) + "\n" + match[2], text)


def _values(cfg: DictConfig) -> dict[str, str]:
    """Choices of groups and values of options, as they are typed."""
    choices = {group: str(choice) for group, choice in cfg.hydra.runtime.choices.items() if group in REASONS}
    written = plain_options(cfg)["trainer"]["precision"]  # its resolver asks whether there is a GPU
    cfg.trainer.precision = "auto" if written.startswith("${") else written
    plain = OmegaConf.masked_copy(cfg, [str(name) for name in cfg if name != "hydra"])
    resolved: Any = OmegaConf.to_container(plain, resolve=True)
    options = dict(_leaves(resolved))
    options["graph.titles"] = options.pop("graph.titles.name", options.get("graph.titles"))
    return choices | {name: as_text(value) for name, value in options.items() if not IMPLIED.match(name)}


def _leaves(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
