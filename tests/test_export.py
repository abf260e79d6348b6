"""A run's encoder for others, through its command: the folder is read as a stranger reads it."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hub_server import TOKEN, HubServer
from huggingface_hub import ModelCard
from hydra.utils import instantiate
from local_server import running
from refusals import mistakes
from run_commands import commands_in
from small_models import save_small_model

from gedbd.corpora.corpus import TEST
from gedbd.encoders import export_formats
from gedbd.encoders.export_formats import read_onnx
from gedbd.experiments.run_folder import SCHEMA, find_run
from gedbd.retrieval.ranking_tasks import EarlierReports, rank, ranking_metrics
from gedbd.retrieval.scorers.dense_scorer import VectorScorer
from gedbd.sampling.splits import split_corpus

pytestmark = pytest.mark.integration

STRANGER = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
texts = np.load("texts.npy").tolist()
np.save("vectors.npy", SentenceTransformer(sys.argv[1], device="cpu").encode(texts))
assert "gedbd" not in sys.modules
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder to work in, with a small corpus, and a way of running a command there."""
    folder = tmp_path_factory.mktemp("export")
    pd.read_csv(files("gedbd.corpora") / "demo.csv", dtype=str).head(200).to_csv(folder / "small.csv", index=False)
    with commands_in(folder) as run:
        yield folder, run


TRAIN = ("dataset=csv", "dataset.path=small.csv", "encoder=tiny", "trainer=smoke")


@pytest.fixture(scope="module")
def graph_run(home):
    """A small training with a graph."""
    home[1]("train", *TRAIN, "optimizer.lr=1e-3", "hydra.run.dir=graph")
    return home[0] / "graph"


@pytest.fixture(scope="module")
def shared(home, graph_run):
    """The run with a graph as a folder of sentence-transformers."""
    home[1]("export", "run=graph", "out=shared")
    return home[0] / "shared"


@pytest.fixture(scope="module")
def onnx(home, graph_run):
    """The run with a graph as an ONNX model."""
    home[1]("export", "run=graph", "out=onnx", "format=onnx")
    return home[0] / "onnx"


def own_vectors(folder: Path):
    """The corpus of a run, its texts, and the vectors of its text branch."""
    cfg, weights = find_run(folder, "best")
    encoder = instantiate(cfg.encoder, cache_dir=folder.parent / "cache")
    corpus = instantiate(cfg.dataset)
    encoder.load_weights(weights)
    texts = instantiate(cfg.text)(corpus.reports).texts
    return corpus, texts, encoder.encode(texts)


def check(folder: Path, vectors: np.ndarray) -> None:
    """The numbers and the ranking of a run's text branch, as the run wrote it down."""
    corpus, _, expected = own_vectors(folder)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    parts = split_corpus(instantiate(find_run(folder, "best")[0].split), corpus)
    found = ranking_metrics(rank(EarlierReports.find(corpus, parts == TEST), VectorScorer(vectors)).queries)
    text_alone = pd.read_csv(folder / "ranking.csv").set_index("method").loc["text"]
    assert found["rr@10"] == pytest.approx(text_alone["rr@10"], abs=1e-12)


@pytest.mark.slow  # exports a model; tests/encoders/test_export_formats.py is quick
def test_sentence_transformers_reads_the_text_branch_without_gedbd(home, graph_run, shared):
    folder = home[0]
    _, texts, _ = own_vectors(graph_run)
    np.save(folder / "texts.npy", np.array(texts))
    subprocess.run([sys.executable, "-c", STRANGER, "shared"], cwd=folder, check=True, timeout=120)
    check(graph_run, np.load(folder / "vectors.npy"))
    assert not any(b"packed" in path.read_bytes() for path in shared.rglob("*.json"))
    assert len({path.stat().st_mode for path in shared.rglob("*.*") if path.is_file()}) == 1
    card = (shared / "README.md").read_text()
    assert "| reports | 200 |" in card
    assert not any(line in card for text in texts for line in text.splitlines() if len(line) > 12)


def test_the_adapters_of_a_run_give_its_vectors_as_a_model(home):
    folder, command = home
    base = save_small_model(folder / "base", "bert")
    options = ("encoder.model=base", "graph=none", "adapter_rank=2", "optimizer.lr=0.1")
    command("train", *TRAIN[:2], "trainer=smoke", *options, "hydra.run.dir=adapted")
    command("export", "run=adapted", "to=adapter", "out=adapter")
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["base_model_name_or_path"]) == (2, str(base))
    assert "low-rank adapters" in (folder / "adapter" / "README.md").read_text()
    vectors = {}
    for model in ("base", "adapter"):
        command("encode", *TRAIN[:2], f"encoder.model={model}", f"out={model}.npz")
        vectors[model] = np.load(folder / f"{model}.npz")["vectors"]
    _, _, expected = own_vectors(folder / "adapted")
    np.testing.assert_allclose(vectors["adapter"], expected, atol=1e-3)
    similarities = (vectors["base"] @ vectors["base"].T, expected @ expected.T)
    assert np.abs(np.subtract(*similarities)).max() > 0.01


@pytest.mark.slow  # exports a model; tests/encoders/test_export_formats.py is quick
def test_onnx_gives_unit_vectors_of_any_batch(graph_run, onnx):
    from onnxruntime import InferenceSession

    _, texts, expected = own_vectors(graph_run)
    check(graph_run, read_onnx(onnx, texts))
    session = InferenceSession(onnx / "model.onnx")
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]
    assert [one.shape for one in session.get_outputs()] == [["texts", 16]]
    np.testing.assert_allclose(read_onnx(onnx, texts[3:4]), expected[3:4], atol=1e-5)
    assert {file.name for file in onnx.iterdir()} > {"model.onnx", "config.json", "tokenizer.json", "README.md"}
    assert b"packed" not in (onnx / "config.json").read_bytes()


@pytest.mark.slow  # exports a model; tests/encoders/test_export_formats.py is quick
@pytest.mark.parametrize("form", ["shared", "onnx"])
def test_the_code_of_the_card_runs(request, monkeypatch, form):
    folder = request.getfixturevalue(form)
    monkeypatch.chdir(folder)
    names: dict[str, np.ndarray] = {}
    exec(re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)[1], names)
    assert names["vectors"].shape == (2, 16)
    np.testing.assert_allclose(np.linalg.norm(names["vectors"], axis=1), 1, atol=1e-5)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("options", "message"), mistakes("export"))
def test_mistakes_are_told_in_one_line(home, graph_run, options, message):
    folder, command = home
    for name in ("unfinished", "changed", "unscored", "other_pairs"):
        shutil.copytree(graph_run, folder / name, dirs_exist_ok=True)
    (folder / "unfinished" / "results.csv").unlink()
    (folder / "unscored" / "predictions.parquet").unlink()
    predictions = pd.read_parquet(graph_run / "predictions.parquet")
    predictions.assign(id_1=predictions["id_2"]).to_parquet(folder / "other_pairs" / "predictions.parquet")
    (folder / "changed" / "versions.json").write_text(f'{{"schema": {SCHEMA}, "corpus": "another"}}')
    with pytest.raises(SystemExit, match=message):
        command("export", *options.split())
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("form", "package"), [("sentence_transformers",) * 2, ("onnx", "onnxruntime")])
def test_a_missing_package_is_told_before_anything_is_read(home, monkeypatch, form, package):
    monkeypatch.setitem(sys.modules, package, None)
    (home[0] / "empty_run").mkdir(exist_ok=True)
    (home[0] / "empty_run" / "config.yaml").touch()  # reading it would fail with another message
    with pytest.raises(SystemExit, match=rf"{package} is not installed: pip install 'gedbd\[export\]'"):
        home[1]("export", "run=empty_run", "out=new", f"format={form}")


@pytest.fixture(scope="module")
def pairs(home, graph_run):
    """The pairs and queries of the run with a graph."""
    home[1]("export", "run=graph", "to=pairs", "out=pairs")
    return home[0] / "pairs"


def test_f1_and_rr_at_10_follow_from_the_exported_pairs(graph_run, pairs, monkeypatch, capsys):
    results = pd.read_csv(graph_run / "results.csv").set_index("method")
    ranking = pd.read_csv(graph_run / "ranking.csv").set_index("method")
    scored = pd.read_parquet(pairs / "predictions.parquet").query("part == 'test'")
    for method, column in {"text_graph": "score", "text": "score_text", "frozen": "score_frozen"}.items():
        predicted = scored[column] >= results["threshold"][method]
        f1 = 2 * (predicted & (scored["label"] == 1)).sum() / (predicted.sum() + scored["label"].sum())
        assert f1 == pytest.approx(results["f1"][method], abs=1e-6)
        ranks = pd.read_parquet(pairs / "ranks.parquet").query("protocol == 'earlier' and method == @method")
        assert (ranks["rank"] <= 10).mean() == pytest.approx(ranking["rr@10"][method], abs=1e-12)
    monkeypatch.chdir(pairs)
    text = (pairs / "README.md").read_text()
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], {})
    f1, rr = (float(line.split()[1]) for line in capsys.readouterr().out.splitlines())
    assert (f1, rr) == pytest.approx((results["f1"].iloc[0], ranking["rr@10"].iloc[0]), abs=1e-6)
    assert f"The run has F1 {f1:.3f} and RR@10 {rr:.3f}." in text


def test_vectors_rank_the_exported_queries_as_the_run_did(graph_run, pairs):
    tables = {path.stem: pd.read_parquet(path) for path in pairs.glob("*.parquet")}
    corpus, _, vectors = own_vectors(graph_run)
    reports = tables["reports"]
    assert list(reports.columns) == ["id", "title", "description", "created_at", "group", "part"]
    assert reports["part"].value_counts().to_dict() == {"train": 120, "val": 40, "test": 40}
    assert list(reports["title"]) == list(corpus.reports["title"])
    assert set(tables["pairs"]["part"]) == {"train", "val", "test"}
    drawn = tables["pairs"].merge(tables["predictions"], on=["id_1", "id_2", "label", "part"])
    assert len(drawn) == len(tables["predictions"]) == (tables["pairs"]["part"] != "train").sum()
    group = reports.set_index("id")["group"]
    assert (
        (group[tables["pairs"]["id_1"]].values == group[tables["pairs"]["id_2"]].values) == tables["pairs"]["label"]
    ).all()
    row_of = {report: row for row, report in enumerate(reports["id"])}
    ranks = tables["ranks"].query("method == 'text'").set_index("id")["rank"]
    asked = tables["candidates"].query("part == 'test'").set_index("id")
    assert set(asked.index) == set(ranks.index) == set(tables["queries"].query("part == 'test'")["id"])
    relevant = tables["relevant"].query("part == 'test'").groupby("id")["relevant"].agg(set)
    for query, candidate in asked.iterrows():
        found = reports.iloc[candidate["start"] : candidate["stop"]]
        best = pd.Series(vectors[found.index] @ vectors[row_of[query]]).groupby(found["group"]).max()
        assert relevant[query] == set(found["id"][found["group"] == group[query]])
        assert ranks[query] == pytest.approx((best > best[group[query]] + 1e-6).sum() + 1, abs=1)


@pytest.fixture(scope="module")
def beir(home, graph_run):
    """The queries of the run with a graph in BEIR's format."""
    home[1]("export", "run=graph", "to=beir", "out=beir", "queries=earlier")
    return home[0] / "beir"


def test_beir_reads_the_exported_queries(beir, pairs):
    reader = pytest.importorskip("beir.datasets.data_loader", reason="pip install beir")
    reports, queries, relevant = (
        pd.read_parquet(pairs / f"{name}.parquet") for name in ("reports", "queries", "relevant")
    )
    for split, part in (("dev", "val"), ("test", "test")):
        corpus, asked, qrels = reader.GenericDataLoader(str(beir)).load(split)
        assert list(corpus) == reports["id"].tolist()
        assert [one["title"] for one in corpus.values()] == reports["title"].tolist()
        own = queries[(queries["part"] == part) & (queries["protocol"] == "earlier")]
        assert set(asked) == set(own["id"])
        found = relevant[(relevant["part"] == part) & (relevant["protocol"] == "earlier")]
        wanted = found.groupby("id")["relevant"].agg(set).to_dict()
        assert {query: set(documents) for query, documents in qrels.items()} == wanted


def test_the_candidates_of_a_query_came_in_before_it(beir, monkeypatch):
    monkeypatch.chdir(beir)
    ids, queries = (
        [json.loads(line)["_id"] for line in Path(name).read_text(encoding="utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    text = Path("README.md").read_text()
    asked = pd.read_csv("candidates/test.tsv", sep="\t", dtype=str)["query-id"].tolist()
    names = {"results": {query: dict.fromkeys(ids, 1.0) for query in asked}}
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], names)
    for query, found in names["results"].items():
        assert list(found) == ids[: ids.index(query)]
    assert set(asked) <= set(queries)
    assert "protocol\n  `earlier`: " in text


@pytest.mark.slow  # three commands; tests/encoders/test_hub_repository.py is quick
def test_a_run_on_the_hub_has_its_metrics_and_loads_by_its_name(home, graph_run, shared, tmp_path):
    folder = home[0]
    with running(HubServer()) as server:
        place = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path), "HF_TOKEN": TOKEN}

        def gedbd(*words):
            line = [sys.executable, "-m", "gedbd", *words]
            return subprocess.run(line, cwd=folder, env=os.environ | place, capture_output=True, text=True, timeout=120)

        refused = gedbd("export", "run=graph", "to=hub", "repo=bob/bugs")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert re.fullmatch(r"error: repo=bob/bugs: the hub refuses \(403\): .*\n", refused.stderr)
        done = gedbd("export", "run=graph", "to=hub", "repo=bugs", "license=mit")
        assert done.returncode == 0, done.stderr
        repository = server.repositories["ann/bugs"]
        assert repository.private
        names = sorted(path.relative_to(shared).as_posix() for path in shared.rglob("*") if path.is_file())
        assert sorted(repository.files) == names
        same = [name for name in names if repository.files[name] == (shared / name).read_bytes()]
        assert set(names) - set(same) == {"README.md"}
        words = " ".join(done.stdout.split())
        assert f"uploaded {len(names)} files (1_Pooling/config.json, " in words
        assert f"private: {server.url}/ann/bugs Next: " in words
        card = ModelCard(repository.files["README.md"].decode())
        assert (card.data.license, card.data.library_name) == ("mit", "sentence-transformers")
        found = {result.metric_type: result.metric_value for result in card.data.eval_results}
        for table in ("results", "ranking"):
            text = pd.read_csv(graph_run / f"{table}.csv").set_index("method").loc["text"]
            for name in found.keys() & set(text.index):
                assert found.pop(name) == text[name]
        assert not found
        assert 'SentenceTransformer("ann/bugs")' in card.text
        options = done.stdout.splitlines()[-1].split()
        assert " ".join(options) in card.text
        encoded = gedbd("encode", "run=null", "dataset=csv", "dataset.path=small.csv", "out=hub.npz", *options)
        assert encoded.returncode == 0, encoded.stderr
    with np.load(folder / "hub.npz") as file:
        np.testing.assert_allclose(file["vectors"], own_vectors(graph_run)[2], atol=1e-5)


def test_a_model_that_differs_leaves_nothing(home, graph_run, monkeypatch):
    folder, command = home
    before = set(folder.iterdir())
    strict = export_formats.find_format("sentence_transformers")._replace(tolerance=-1.0)
    monkeypatch.setitem(export_formats.FORMATS, "sentence_transformers", strict)
    with pytest.raises(SystemExit, match="differ from gedbd's by"):
        command("export", "run=graph", "out=new")
    assert set(folder.iterdir()) == before
