"""The section of a report about field templates, screenshots and training: the table of SupCon SBERT."""

from typing import Any

from gedbd.evaluation.display_names import FROZEN, TEXT_GRAPH
from gedbd.evaluation.report.section import Section, pick, with_models
from gedbd.evaluation.report.settings import Setting
from gedbd.retrieval.protocol_words import EARLIER, TEST_POOL

TEXT = (
    "Reports as text of their fields, with and without captions of their screenshots, encoded without and with"
    " fine-tuning. RR@10 and MRR are among all earlier reports; those of the pool, and MAP@10, are among the reports of"
    " the test part only, as in many papers."
)
TRAINING = ("frozen", "fine-tuned", "fine-tuned, graph")
SHOWN = {EARLIER: ("rr@10", "mrr"), TEST_POOL: ("rr@10", "mrr", "map@10")}


def configurations(corpus: str, settings: list[Setting]) -> Section | None:
    """A row for each combination of text and training; None if no setting has a field template."""
    with_fields = [setting for setting in settings if "text.captions" in setting.options]
    rows = [_row(setting, setting.methods[0]) for setting in with_fields if _has_encoder(setting)]
    # The frozen encoder is scored by every training too: one row for each text suffices.
    known = {row["screenshots"] for row in rows if row["training"] == "frozen"}
    for setting in with_fields:
        if setting.runs[0].is_baseline or FROZEN not in setting.methods:
            continue
        row = _row(setting, FROZEN)
        if row["screenshots"] not in known:
            known.add(row["screenshots"])
            rows.append(row)
    if not any("rr@10" in row for row in rows):
        return None
    rows.sort(key=lambda row: (row["screenshots"], TRAINING.index(row["training"])))
    return Section(f"Text, screenshots, training: {corpus}", TEXT, [with_models(rows, ("screenshots", "training"))])


def _has_encoder(setting: Setting) -> bool:
    """Whether an encoder gives the scores."""
    return not setting.runs[0].is_baseline or setting.runs[0].config.name == "frozen"


def _row(setting: Setting, method: str) -> dict[str, Any]:
    run = setting.runs[0]
    # The baseline "frozen" also scores with an encoder that another run has trained.
    trained = bool(run.config.run) if run.is_baseline else method != FROZEN
    graph = method == TEXT_GRAPH
    row: dict[str, Any] = {
        "model": setting.name_of(method),
        "screenshots": "no" if setting.options["text.captions"] is None else "yes",
        "training": TRAINING[trained + (trained and graph)],  # 0 frozen, 1 fine-tuned, 2 fine-tuned with a graph
        "seeds": len(setting.runs) if trained else 1,
    }
    for protocol, names in SHOWN.items():
        values = setting.rank_metrics(method, protocol) or {}
        names = tuple(f"{name}{end}" for name in names for end in ("", "_low", "_high"))
        found = pick(values, names)
        row |= {f"pool {name}" if protocol == TEST_POOL else name: value for name, value in found.items()}
    return row
