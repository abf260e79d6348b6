"""The task from the command line: a run folder with tables and a page, and refusals."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

import gedbd.train
from gedbd.localization.training.compared_methods import LearntOptions, MethodOptions, UnseenScores, with_other_texts
from gedbd.localization.training.localization_output import FirstPretraining
from gedbd.localization.training.localization_task import LocalizationTask
from gedbd.retrieval.scorers.bm25 import Bm25
from gedbd.retrieval.scorers.simple_scorers import Recency

pytestmark = pytest.mark.integration

SMALL = ("task=localization", "encoder=tiny", "cache_dir=cache")
ALONE = ("task.model=null",)
SHORT = (
    *(f"~task.learnt.{name}" for name in ("boosted_content", "boosted_text", "weighted_sum", "weighted_sum_content")),
    *("++task.learnt.boosted.rounds=10", "++task.learnt.boosted.num_seeds=1"),
)
NOT_LEARNT = ("task.learnt=null",)
MODEL = (
    *("batch_size=4", "trainer.max_epochs=1", "task.model.val_candidates=10"),
    *("task.model.report_tokens=12", "task.model.comment_tokens=6", "task.model.code_tokens=12"),
    *("task.model.settings.num_layers=2", "task.model.settings.projector_hidden=8", "task.model.settings.dim=8"),
    "task.model.settings.bank_size=32",
)
OTHERS = (
    *("age", "recency", "file_recency", "bm25_message", "bm25_paths", "structured", "file_names", "trace_files"),
    *("trace_methods", "frozen", "frozen_max_sim"),
)
PRETRAINING = FirstPretraining("src", "all", {"all": {}}, {}, ["task=pretraining"])
FEW = (*(f"++task.compared.only.{name}=[]" for name in OTHERS), "task.compared.linear=[bm25_diff,num_files]")


@pytest.fixture(scope="module")
def call(command, localization_folder, tmp_path_factory):
    """Trains in a folder of the module and returns it."""
    return partial(command, gedbd.train, tmp_path_factory.mktemp("runs"), *SMALL, f"dataset.path={localization_folder}")


@pytest.fixture(scope="module")
def run(call):
    control = ("~task.learnt.boosted_content_shuffled", "++task.learnt.boosted_shuffled.kind=linear")
    options = (
        *ALONE,
        *SHORT,
        *FEW,
        "++task.compared.only.frozen=[commit]",
        *control,
        "dataset.name=tomcat",
        "hydra.run.dir=run",
    )
    return call("experiment=locate_tables24", *options) / "run"


def test_a_run_leaves_tables_rankings_and_a_page(run):
    ranking = pd.read_csv(run / "ranking.csv")
    assert set(ranking["granularity"]) == {"commit", "file", "hunk"}
    assert (ranking["queries"] == 15).all()
    assert ranking["method"][0] == "boosted"
    assert (ranking.set_index("method").loc["boosted", "seeds"] == 2).all()
    assert not ranking["method"].str.contains("hmcbl").any()
    results = pd.read_csv(run / "results.csv")
    assert results["method"].is_unique
    assert {"mrr", "rr@10", "file_mrr", "hunk_rr@10"} <= set(results)
    page = (run / "report.html").read_text()
    assert "Comparison with the paper" in page
    assert "made strictly before the report" in page
    drawn = {f"{name}{suffix}" for name in ("mrr_by_method", "hit_curves") for suffix in (".png", ".svg")}
    assert drawn == {file.name for file in (run / "figures").iterdir()}
    assert "boosted: " in (run / "results.md").read_text()
    published = pd.read_csv(run / "tables24.csv").set_index(["ranked", "method", "source"])
    assert published.loc[("commits", "semantic_codebert", "Table 2"), "mrr"] == 0.386
    assert "no number here repeats or refutes" in (run / "tables24.md").read_text()


def test_the_learnt_ranker_finds_what_the_classes_and_their_last_changes_tell(run):
    rows = pd.read_csv(run / "ranking.csv").set_index(["granularity", "method"])
    for granularity in ("commit", "file", "hunk"):
        assert rows.loc[(granularity, "boosted"), "mrr_difference_low"] > 0
        assert rows.loc[(granularity, "boosted"), "mrr"] > rows.loc[(granularity, "boosted_shuffled"), "mrr"] + 0.2
    assert "better than bm25_diff" in (run / "results.md").read_text()


@pytest.mark.slow
def test_hmcbl_is_trained_and_ranks_its_granularity_and_coarser_ones(call):
    others = ("boosted", "boosted_content", "boosted_text", "weighted_sum", "weighted_sum_content")
    options = (
        *(f"~task.learnt.{name}" for name in others),
        *("task.model.granularity=file", "task.model.max_sim=true", "++task.learnt.boosted_hmcbl.kind=linear"),
    )
    folder = call(*MODEL, *FEW, *options, "hydra.run.dir=hmcbl")
    ranking = pd.read_csv(folder / "hmcbl" / "ranking.csv")
    methods = ranking.groupby("granularity")["method"].agg(set)
    assert {"hmcbl_cosine_best_file", "hmcbl_max_sim_best_file"} <= methods["commit"]
    assert {"hmcbl_cosine", "hmcbl_max_sim"} <= methods["file"]
    assert not any(name.startswith("hmcbl") for name in methods["hunk"])
    assert "boosted_hmcbl" in methods["commit"] & methods["hunk"]
    assert (folder / "hmcbl" / "checkpoints" / "best.ckpt").is_file()
    page = (folder / "hmcbl" / "report.html").read_text()
    assert "the validation set is the latest reports of the first half" in page


@pytest.mark.slow
def test_an_interrupted_training_goes_on_and_is_tested(call):
    options = (*MODEL, *FEW, *NOT_LEARNT, "task.granularities=[commit]", "task.model.granularity=commit")
    folder = call(*options, "hydra.run.dir=resumed") / "resumed"
    call(*options, f"ckpt_path={folder}/checkpoints/last.ckpt", "trainer.max_epochs=2")
    assert pd.read_csv(folder / "metrics.csv")["epoch"].tolist() == [0, 1]
    assert pd.read_csv(folder / "results.csv")["method"][0] == "hmcbl_cosine"


def test_scores_of_reports_that_trained_an_encoder_are_missing():
    scorer = UnseenScores(PrecomputedScores(np.array([[1.0, 2], [3, 4], [5, 6]])), np.array([1]))
    found = scorer.scores(np.array([2, 1]))
    assert found[0].tolist() == [5, 6]
    assert np.isnan(found[1]).all()


def test_in_the_control_every_report_has_the_text_of_another_one(change_corpus):
    table = change_corpus.reports.reports
    numbers = table.index.astype(str)
    documents = replace(change_corpus.reports.documents, table=table.assign(title=numbers, description=numbers))
    numbered = replace(change_corpus, reports=replace(change_corpus.reports, documents=documents))
    shuffled = with_other_texts(numbered)
    after = shuffled.reports.reports
    assert (after["title"] != numbers).all()
    assert (after["title"] == after["description"]).all()
    assert sorted(after["title"]) == sorted(numbers)
    assert (after[["id", "created_at"]] == table[["id", "created_at"]]).all(axis=None)
    assert shuffled.inducing is numbered.inducing
    with pytest.raises(ValueError, match="shuffled=true and hmcbl=true"):
        LearntOptions(shuffled=True, hmcbl=True)


@pytest.mark.slow
def test_the_authors_settings_rank_commits_by_their_best_hunk_beside_the_published_rows(call):
    folder = call("experiment=locate_authors", *MODEL, *FEW, "dataset.name=swt", "hydra.run.dir=authors") / "authors"
    rows = pd.read_csv(folder / "tables24.csv").set_index(["ranked", "method"])
    assert rows.loc[("commits, by their best hunk", "hmcbl_max_sim_best_hunk"), "mrr"] > 0
    assert rows.loc[("commits, by their best hunk", "semantic_codebert"), "mrr"] == 0.540


@pytest.mark.slow
def test_the_ablation_is_a_sweep_with_a_table(call):
    folder = call("experiment=locate_ablation", *MODEL, "hydra.sweep.dir=sweep")
    table = pd.read_csv(folder / "sweep" / "summary.csv")
    assert len(table) == 8
    assert table["mrr"].between(0, 1).all()


def test_a_pretraining_that_has_finished_is_not_repeated(tmp_path):
    (tmp_path / "pretraining").mkdir()
    (tmp_path / "pretraining" / "own_page.json").write_text("{}")
    # Neither options nor a console are needed.
    assert PRETRAINING.encoder(None, tmp_path, None) == tmp_path / "pretraining" / "encoder"


@pytest.mark.parametrize(
    ("compared", "options", "message"),
    [
        ({"baseline": "bm52"}, {}, "task.compared.baseline=bm52 is not among task.scorers: bm25, recency"),
        ({"sums": {"bm25": ["bm25"]}}, {}, "task.scorers.bm25: bm25 is the name of a sum: choose another one"),
        ({"only": {"bm25": ["hunk"]}}, {}, "task.compared.only.bm25: the baseline must rank commits"),
        ({}, {"pretraining": PRETRAINING}, "task.pretraining trains the encoder of task.model"),
        ({}, {"learnt": {"bm25": LearntOptions()}}, "task.learnt.bm25: there is another method with this name"),
    ],
)
def test_invalid_options_are_refused(compared, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LocalizationTask(
            {"bm25": Bm25, "recency": Recency}, MethodOptions(**({"baseline": "bm25"} | compared)), **options
        )


@pytest.mark.slow
def test_each_row_of_table3_pretrains_and_localizes(call, tmp_path):
    sources = tmp_path / "methods"
    sources.mkdir()
    for number in range(20):
        code = f"int add(int size) {{ if (size > {number}) return size; int sum = size + {number}; return sum; }}"
        (sources / f"F{number}.java").write_text(f"class F{number} {{ {code} }}")
    small = ("encoder.layers=2", "encoder.hidden=16", "encoder.heads=2", "encoder.intermediate=16")
    options = (
        *("experiment=locate_table3", "encoder=untrained", f"task.pretraining.methods={sources}", *small, *MODEL),
        *("encoder.vocab_size=400", "+task.pretraining.options.trainer.max_epochs=1"),
        "hydra.sweep.dir=table3",
    )
    folder = call(*options) / "table3"
    table = pd.read_csv(folder / "table3.csv")
    assert table["source"].tolist() == ["here"] * 3 + ["Table 3"] * 18
    objectives = [set(pd.read_csv(folder / f"{job}/pretraining/objectives.csv")["objective"]) for job in range(3)]
    assert objectives[0] == objectives[1] == {"mlm", "alignment", "edge"}
    assert objectives[2] == {"mlm", "alignment", "edge", "type", "role"}
