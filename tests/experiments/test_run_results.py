from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from gedbd.corpora.splits import PARTS
from gedbd.experiments.evaluation_result import evaluate_baseline
from gedbd.experiments.prepare import PreparedData
from gedbd.experiments.run_folder import Run
from gedbd.experiments.run_results import report
from gedbd.retrieval.scorers.simple_scorers import Constant


@pytest.mark.figures
def test_figures_of_a_task_are_saved_with_their_captions(make_corpus, tmp_path):
    corpus = make_corpus([0, 0, 2, 2, 4, 4])
    parts = np.array([PARTS.index(name) for name in ("train", "train", "val", "val", "test", "test")])
    pairs = pd.DataFrame({"earlier": [0, 2, 4, 1], "later": [1, 3, 5, 4], "label": [1, 1, 1, 0]})
    pairs = pairs.assign(part=["train", "val", "test", "test"], kind="random")
    prepared = PreparedData(corpus, parts, corpus.group, pairs, {})
    result = evaluate_baseline(Constant(), "constant", prepared, "test")
    figures = {"tag_network": ("the tags", Figure(figsize=(1, 1)))}
    report(tmp_path, replace(result, figures=figures), Console(quiet=True), [])
    run = Run(tmp_path)
    assert run.captions == {"tag_network": "the tags"}
    assert run.figure_file("tag_network").read_bytes().startswith(b"\x89PNG")
    assert run.figure_file("confusion_matrix").is_file()
