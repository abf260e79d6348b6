"""The card of an exported model, from a run folder written by hand."""

import json

import pandas as pd
import pytest
from huggingface_hub import ModelCard
from omegaconf import OmegaConf

from gedbd.experiments.model_card import model_card
from gedbd.experiments.run_folder import Run

CONFIG = """
dataset: {name: null, path: data/zilla.csv.xz, last_n: null}
text: {_target_: gedbd.corpora.templates.title_description, _partial_: true}
split: {_target_: gedbd.sampling.splits.TimeSplit, val_from: 0.6, test_from: 0.8}
encoder: {name: small, model: some-one/small-bert, dim: 8, max_tokens: 64}
labels: {fraction: 1.0}
ranking: {window_days: null}
trainer: {precision: 32-true}
seed: 7
"""
SCORES = {"precision": 0.5, "recall": 0.25, "f1": 0.333, "accuracy": 0.8, "average_precision": 0.4}
RANKS = {"queries": 12, "reachable": 1.0, "rr@10": 0.75, "mrr": 0.5, "rr@10_low": 0.625, "rr@10_high": 0.875}


@pytest.fixture
def folder(tmp_path):
    """A finished run with a graph, which leaks nothing."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    methods = ("text_graph", "text", "frozen", "always_duplicate")
    results = [{"method": name, "threshold": 0.3 + place / 8, **SCORES} for place, name in enumerate(methods)]
    pd.DataFrame(results).to_csv(tmp_path / "results.csv", index=False)
    ranking = [{"method": name, **RANKS, "mrr": 0.5 - place / 8} for place, name in enumerate(methods[:3])]
    pd.DataFrame(ranking).to_csv(tmp_path / "ranking.csv", index=False)
    pairs = pd.DataFrame({"label": [1, 1, 0, 0, 0, 1], "part": ["test"] * 5 + ["val"]})
    pairs.to_parquet(tmp_path / "predictions.parquet")
    leak = {"closure_found": 0, "test_reports_in_training": 0.0, "test_positives": 2, "closure_f1": 0.0}
    (tmp_path / "leak.json").write_text(json.dumps(leak))
    (tmp_path / "versions.json").write_text('{"corpus": "x", "packages": {"gedbd": "0.0.9", "torch": "2.6.0"}}')
    return tmp_path


@pytest.fixture
def card(make_corpus, folder):
    """Makes the card of the folder as it then is."""
    corpus = make_corpus([0, 1, 0, 3, 1, 0], days=range(6))
    return lambda form="onnx", checkpoint="best": model_card(Run(folder), corpus, form, checkpoint, "Title\nSteps")


def test_the_hub_reads_the_metrics_of_the_text_branch_and_the_licence(card, make_corpus, folder):
    data = ModelCard(card()).data
    found = {(result.task_type, result.metric_type): result.metric_value for result in data.eval_results}
    assert found == {
        **{("binary-classification", name): value for name, value in SCORES.items()},
        ("information-retrieval", "rr@10"): 0.75,
        ("information-retrieval", "mrr"): 0.375,
    }
    assert {(result.dataset_name, result.dataset_split) for result in data.eval_results} == {("zilla", "test")}
    assert data.license is None
    assert (data.library_name, data.base_model) == ("onnx", "some-one/small-bert")
    assert data.pipeline_tag == "sentence-similarity"
    assert ModelCard(card(checkpoint="last")).data.eval_results is None
    corpus = make_corpus([0, 1, 0, 3, 1, 0], days=range(6))
    for form in ("sentence_transformers", "onnx", "adapter"):
        text = model_card(Run(folder), corpus, form, "best", "Title", license="mit", repository="ann/bugs")
        assert ModelCard(text).data.license == "mit"
        assert "- Licence: mit; that of `some-one/small-bert`, from which it is derived, applies too." in text
        assert ('SentenceTransformer("ann/bugs")' in text) == (form == "sentence_transformers")
        assert ('model = Encoder(".")' in text) == (form == "adapter")
        assert ('folder = snapshot_download("ann/bugs")\n' in text) == (form == "onnx")
        assert ("by `encoder.model=ann/bugs`." in text) == (form == "sentence_transformers")
        assert "\n\n\n" not in text


def test_the_numbers_are_those_of_the_text_branch_beside_the_frozen_encoder(card):
    text = card()
    assert "| this model | 12 | 1.000 | **0.750 [0.625, 0.875]** | 0.375 |".replace("0.375", "**0.375**") in text
    assert "| its encoder, not fine-tuned | 12 | 1.000 | **0.750 [0.625, 0.875]** | 0.250 |" in text
    assert "| this model | 0.425 | 0.500 | 0.250 |" in text
    assert "inner product of their vectors is 0.425 or more" in text
    assert "2 duplicate pairs and 3 sampled others" in text
    assert "| text + graph" not in text
    assert "always_duplicate" not in text
    assert "**This is the text branch alone: the graph is not in it**" in text


def test_data_text_and_versions(card):
    text = card()
    for line in (
        "Corpus: zilla.",
        "| reports | 6 |",
        "| groups | 2 |",
        "| pairs | 4 |",
        "| first created | 2024-01-01 |",
        "| last created | 2024-01-06 |",
        "(val_from=0.6, test_from=0.8): Train before one moment, validate before the next, test after it.",
        "All duplicate groups of the training part were known.",
        "```yaml\n_target_: gedbd.corpora.templates.title_description\n_partial_: true\n```",
        "```text\nTitle\nSteps\n```",
        "cut to 64 tokens",
        "Seed 7, precision 32-true. Trained with gedbd 0.0.9, torch 2.6.0.",
    ):
        assert line in text
    assert "data/zilla" not in text
    assert "\n\n\n" not in text


def test_what_a_run_has_otherwise_is_told(card, folder):
    plain = card()
    for words in ("within the 90 days", "A share of 0.1 of", "last checkpoint", "THIS SPLIT LEAKS", "test-pool"):
        assert words.lower() not in plain.lower()
    other = {"ranking": {"window_days": 90}, "labels": {"fraction": 0.1}, "encoder": {"model": "./mine"}}
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(folder / "config.yaml"), other), folder / "config.yaml")
    leak = json.loads((folder / "leak.json").read_text()) | {"closure_found": 2, "closure_f1": 0.9}
    (folder / "leak.json").write_text(json.dumps(leak))
    pool = pd.read_csv(folder / "ranking.csv").assign(mrr=0.9)
    pool.to_csv(folder / "ranking_test_pool.csv", index=False)
    text = card(checkpoint="last")
    assert "of groups with a report within the 90 days before." in text
    assert "A share of 0.1 of" in text
    assert "**The weights are those of the last checkpoint; the numbers below were taken with the best one.**" in text
    assert "**Warning: this split leaks." in text
    assert "test-pool protocol of other papers" in text
    assert text.count("| this model |") == 3
    assert "base_model" not in text
