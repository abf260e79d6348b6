"""The model card of an exported model: what it is, how it was measured, and its limits."""

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from hydra.utils import get_class
from jinja2 import Environment, PackageLoader, StrictUndefined
from omegaconf import OmegaConf

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.statistics import describe_corpus
from gedbd.evaluation.display_names import FROZEN, TEXT
from gedbd.evaluation.pairwise import leak_warning
from gedbd.experiments.report.report_page import markdown, show
from gedbd.experiments.run_folder import Run
from gedbd.io.console import code_block, escape_markdown
from gedbd.io.files import read_object
from gedbd.io.table_files import read_csv

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

METHODS = {TEXT: "this model", FROZEN: "its encoder, not fine-tuned"}
FACTS = ("reports", "in a group", "groups", "pairs", "largest group", "first created", "last created")
TOOLS = {
    "sentence_transformers": ("gedbd", "torch", "transformers", "sentence-transformers"),
    "onnx": ("gedbd", "torch", "transformers", "onnx", "onnxruntime"),
    "adapter": ("gedbd", "torch", "transformers"),
}
PAIR_METRICS = ("f1", "precision", "recall", "accuracy", "average_precision")
RANKING_METRIC = re.compile(r"rr@\d+|mrr|map")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# Not of the corpus, whose texts may be private.
MADE_UP = pd.DataFrame(
    [
        dict.fromkeys(BUG_FIELDS, "")
        | {
            "id": "1",
            "title": "Editor closes when a large file is opened",
            "description": "Open a file of two gigabytes: the window disappears without a message.",
            "created_at": pd.Timestamp("2024-01-01", tz="UTC"),
            "product": "Workbench",
            "component": "Editor",
            "version": "1.2",
            "os": "Linux",
            "priority": "P3",
            "status": "NEW",
        }
    ]
)
"""A made-up report, which shows how a report becomes a text."""


def model_card(
    run: Run,
    corpus: Corpus,
    form: str,
    checkpoint: str,
    example: str,
    *,
    license: str | None = None,
    repository: str | None = None,
    max_tokens: int | None = None,
) -> str:
    """The card in Markdown, with front matter for the Hugging Face hub.

    ``form`` is a key of ``TOOLS``, ``checkpoint`` ``best``, which gave the run's numbers, or
    ``last``, and ``example`` the text of ``MADE_UP``. Of the corpus the card gives only counts and dates. ``license``
    is the hub's identifier, ``repository`` the name on the hub that gedbd's commands load the model by, and
    ``max_tokens`` the encoder's, if the run's options leave it to the model.
    """
    cfg = run.config
    is_tested = (run.folder / "results.csv").is_file()  # unlike a training on all reports
    facts = {key: value for key, value in describe_corpus(corpus).items() if key in FACTS and value is not None}
    split_options = [f"{key}={value}" for key, value in cfg.split.items() if key != "_target_"]
    summary = inspect.cleandoc(get_class(cfg.split._target_).__doc__ or "").partition("\nArgs:")[0]
    trackers = corpus.reports["tracker"][~corpus.reports["held_out"]] if "tracker" in corpus.reports else ()
    text = cfg.text
    if text.get("captions") is not None:  # only the file name of the path, since the card may be published
        text = OmegaConf.merge(text, {"captions": Path(text.captions).name})
    about = {
        "form": form,
        "checkpoint": checkpoint,
        "encoder": cfg.encoder,
        "prefix": cfg.encoder.get("prefix"),
        "base_model": base_model(cfg.encoder),
        "corpus": ", ".join(dict.fromkeys(trackers)) or run.corpus,
        "facts": facts,
        "split": " ".join(summary.split()),
        "split_options": ", ".join(split_options),
        "known": cfg.labels.fraction,
        "text": OmegaConf.to_yaml(text).strip(),
        "example": example,
        "across": len(trackers) > 0,
        "with_graph": is_tested and run.method != TEXT,
        "window_days": cfg.ranking.window_days,
        "warning": leak_warning(run.leak) if is_tested else None,
        "precision": cfg.trainer.precision,
        "seed": cfg.seed,
        "trained_with": read_object(run.folder / "versions.json", "packages")["packages"],
        "exported_with": {name: version(name) for name in TOOLS[form]},
    }
    about |= {"license": license, "repository": repository, "max_tokens": max_tokens or cfg.encoder.max_tokens}
    # The run's numbers are those of the best checkpoint.
    eval_results = _eval_results(run) if checkpoint == "best" else None
    front = _front_matter(form, base_model(cfg.encoder), license, str(repository or run.corpus), eval_results)
    return render_markdown(
        "model_card.md.j2", front=front, **about, **(_result_tables(run) if is_tested else {"pairs": None})
    )


def render_markdown(template: str, **values: Any) -> str:
    """A page from a template; huggingface_hub's ``ModelCard`` would leave a missing value empty instead of raising."""
    environment = Environment(
        loader=PackageLoader("gedbd.experiments", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inert": lambda value: escape_markdown(str(value)), "code": code_block}
    return environment.get_template(template).render(**values)


def base_model(encoder: Any) -> str | None:
    """Name on the hub of the model that was fine-tuned; None for a folder and for an encoder made in memory."""
    model = str(encoder.get("model") or "")
    return model if HUB_NAME.fullmatch(model) and not Path(model).exists() else None


def _front_matter(
    form: str, base: str | None, license: str | None, name: str, evaluated: "list[EvalResult] | None"
) -> str:
    from huggingface_hub import ModelCardData

    library = "peft" if form == "adapter" else form.replace("_", "-")
    data = ModelCardData(
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=[library, "sentence-similarity", "feature-extraction", "duplicate-bug-reports", "gedbd"],
        base_model=base,
        license=license,
        model_name=name,
        eval_results=evaluated,
    )
    return str(data.to_yaml())


def _eval_results(run: Run) -> "list[EvalResult]":
    """The run's metrics of the text branch, as the hub reads them."""
    from huggingface_hub import EvalResult

    # Task names as in the model cards of sentence-transformers.
    tables = {
        ("binary-classification", "Duplicate pairs"): run.results[["method", *PAIR_METRICS]],
        ("information-retrieval", "Duplicates among all earlier reports"): run.ranking,
    }
    results = []
    for (task, title), table in tables.items():
        rows = [] if table is None else table[table["method"] == TEXT].to_dict("records")
        for name, value in (item for row in rows for item in row.items()):
            if name in PAIR_METRICS or RANKING_METRIC.fullmatch(str(name)):
                results.append(
                    EvalResult(
                        task_type=task,
                        task_name=title,
                        dataset_type="bug-reports",
                        dataset_name=run.corpus,
                        dataset_split=run.part,
                        metric_type=str(name),
                        metric_name=str(name).replace("_", " "),
                        metric_value=float(value),
                    )
                )
    return results


def _result_tables(run: Run) -> dict[str, object]:
    """The run's results of the text branch and the frozen encoder, as Markdown tables."""
    chosen = run.predictions[run.predictions["part"] == run.part]
    pool = run.folder / "ranking_test_pool.csv"
    return {
        "pairs": _table(run.results),
        "duplicate_pairs": int(chosen["label"].sum()),
        "other_pairs": int((chosen["label"] == 0).sum()),
        "threshold": float(run.results.loc[run.results["method"] == TEXT, "threshold"].iloc[0]),
        "ranking": None if run.ranking is None else _table(run.ranking),
        "test_pool": _table(read_csv(pool)) if pool.is_file() else None,
    }


def _table(results: pd.DataFrame) -> str:
    rows = results[results["method"].isin(METHODS)]
    return "\n".join(markdown(show(rows.assign(method=rows["method"].map(METHODS)))))
