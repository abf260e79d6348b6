"""The two objects as Lightning's users make them: without Hydra, from a file, and again from a checkpoint."""

import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from small_duplicates import WORDS, dense_matrix, everyone, unit_rows

import gedbd
from gedbd import BugReports, DuplicateDetector
from gedbd.duplicates.bug_reports import Batch
from gedbd.duplicates.graph.adjacency import DenseAdjacency, threshold
from gedbd.duplicates.graph.title_graph import TitleGraph
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.experiments.retrieval_module import EncodedRows, EpochLoss, EpochRows

REPORTS = 60


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A file of reports, each of which is repeated once, twenty reports later."""
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, 5)) for _ in range(REPORTS)]
    first = [number - 20 if number >= 20 and number % 2 else None for number in range(REPORTS)]
    dates = pd.date_range("2020-01-01", periods=REPORTS).astype(str)
    table = pd.DataFrame(
        {"Issue_id": range(100, 100 + REPORTS), "Title": titles, "Description": "", "Created_time": dates}
    )
    table["Duplicated_issue"] = [None if row is None else 100 + row for row in first]
    path = tmp_path_factory.mktemp("export") / "bugs.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def trained(export):
    """A model after one epoch on the file, its data, and its checkpoint."""
    pl.seed_everything(0)
    data = BugReports(export, batch_size=8)
    model = DuplicateDetector("tiny", lambda_text=0.6, margin=0.3, lr=1e-3)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", default_root_dir=export.parent, logger=False)
    trainer.fit(model, data)
    path = export.parent / "detector.ckpt"
    trainer.save_checkpoint(path)
    return model, data, path, {name: float(value) for name, value in trainer.callback_metrics.items()}


def test_a_training_in_a_few_lines_logs_loss_and_f1(trained):
    _, data, _, logged = trained
    assert {"train/loss", "train/f1", "val/loss", "val/f1", "val/threshold"} <= set(logged)
    assert np.isfinite(list(logged.values())).all()
    assert list(data.pairs.columns[:5]) == ["earlier", "later", "label", "kind", "part"]
    assert data.hparams["batch_size"] == 8


def test_a_checkpoint_needs_nothing_else(trained, export):
    model, data, path, _ = trained
    loaded = DuplicateDetector.load_from_checkpoint(path)
    texts = ["mail crash", "printer folder theme"]
    np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))
    with pytest.raises(ValueError, match="texts is a single text: give a list of texts"):
        loaded.encode(texts[0])
    assert loaded.hparams["fusion"]["lambda_text"] == 0.6
    assert loaded.hparams["loss"]["margin"] == 0.3
    quiet = {"logger": False, "enable_progress_bar": False, "accelerator": "cpu"}
    expected = pl.Trainer(**quiet).test(model, data, verbose=False)
    # The titles of the graph are those of the encoder before its training.
    assert pl.Trainer(**quiet).test(loaded, BugReports(export, batch_size=8), verbose=False) == expected


def test_models_that_share_data_train_as_with_data_of_their_own(export):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    shared = BugReports(export, batch_size=8)
    results = []
    for data in (BugReports(export, batch_size=8), shared, shared):
        pl.seed_everything(0)
        model = DuplicateDetector("tiny", lambda_text=0.6, margin=0.3, lr=1e-3)
        trainer = pl.Trainer(max_epochs=1, **quiet)
        trainer.fit(model, data)
        results.append((trainer.test(model, data, verbose=False), data.pairs["score_frozen"].sum()))
    assert results[0] == results[1] == results[2]
    assert "texts" not in vars(shared)  # written once, for the untrained encoder and the tokens
    encoder = load_tiny_encoder("tiny", "mean", 16, 32, 32, 1, 0.0, 0)
    encoder.tokenizer = deepcopy(encoder.tokenizer)
    encoder.tokenizer.add_tokens("a-word-of-its-own")
    with pytest.raises(ValueError, match="another tokenizer than the model: leave encoder out"):
        trainer.fit(DuplicateDetector("tiny"), BugReports(export, encoder))
    with pytest.raises(ValueError, match=r"trainer.fit\(model, BugReports\(\.\.\.\)\)"):
        pl.Trainer(max_epochs=1, **quiet).fit(DuplicateDetector("tiny"), [None])


def test_a_part_given_as_an_object_is_given_again(trained, tmp_path):
    content = torch.load(trained[2], weights_only=True)
    fusion = content["hyper_parameters"].pop("fusion")
    torch.save(content, tmp_path / "objects.ckpt")
    with pytest.raises(ValueError, match=r"load_from_checkpoint\(path, fusion=\.\.\.\)"):
        DuplicateDetector.load_from_checkpoint(tmp_path / "objects.ckpt")
    assert DuplicateDetector.load_from_checkpoint(tmp_path / "objects.ckpt", fusion=fusion).fusion.lambda_text == 0.6


def test_a_checkpoint_may_not_name_other_code(trained, tmp_path):
    content = torch.load(trained[2], weights_only=True)
    content["hyper_parameters"]["loss"]["_target_"] = "os.system"
    torch.save(content, tmp_path / "hostile.ckpt")
    with pytest.raises(ValueError, match=r"loss\._target_=os\.system is not run"):
        DuplicateDetector.load_from_checkpoint(tmp_path / "hostile.ckpt")


def test_a_model_of_other_reports_is_refused(trained, export, tmp_path):
    shorter = pd.read_csv(export).iloc[:-1]
    shorter.to_csv(tmp_path / "fewer.csv", index=False)
    data = BugReports(tmp_path / "fewer.csv", "tiny")
    data.setup()
    with pytest.raises(ValueError, match=f"trained with {REPORTS} reports, and these are {REPORTS - 1}"):
        DuplicateDetector.load_from_checkpoint(trained[2]).connect(data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "tinny"}, "tiny"),
        ({"encoder": "tiny", "fusion": "text_only", "lambda_text": 0.5}, "lambda_text"),
        ({"encoder": load_tiny_encoder("tiny", "mean", 8, 24, 16, 1, 0.0, 0), "dim": 16}, "encoder.dim does not apply"),
    ],
)
def test_what_does_not_apply_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DuplicateDetector(**arguments)


def test_reports_without_a_model_need_an_encoder(export):
    data = BugReports(export)
    data.setup()
    with pytest.raises(ValueError, match="encoder='minilm'"):
        assert data.graph
    with pytest.raises(ValueError, match=re.escape("nothing.csv")):
        BugReports("nothing.csv").setup()


def test_the_graph_of_a_dense_rule_has_its_factors_and_strongest_edges(trained):
    _, data, _, _ = trained
    vectors = unit_rows(REPORTS)
    inside = torch.arange(REPORTS) < 50
    for senders in (everyone(REPORTS), inside):
        data.title_graph = TitleGraph(DenseAdjacency(vectors, senders, power=2))
        graph = data.graph
        graph.validate()
        whole = dense_matrix(vectors, senders, power=2)
        alone = torch.diag((~senders).double() * whole.diagonal())
        torch.testing.assert_close((graph.receive @ graph.send.T).double() + alone, whole, atol=1e-6, rtol=0)
        source, target = graph.edge_index
        torch.testing.assert_close(graph.edge_weight.double(), whole[target, source], atol=1e-6, rtol=0)
        assert (target.bincount() == 10).all()
        assert senders[source].all()
        raw = ((1 + vectors @ vectors.T) / 2) ** 2
        raw[:, ~senders] = 0
        raw.fill_diagonal_(0)
        strongest = raw.topk(10).indices
        assert {(int(row), int(one)) for row in range(REPORTS) for one in strongest[row]} == set(
            zip(target.tolist(), source.tolist(), strict=True)
        )


def test_the_graph_of_a_sparse_rule_has_all_edges(trained):
    _, data, _, _ = trained
    adjacency = threshold(unit_rows(REPORTS), everyone(REPORTS), cosine=0.5)
    data.title_graph = TitleGraph(adjacency)
    assert data.graph.edge_index is adjacency.edge_index
    assert data.graph.edge_weight is adjacency.edge_weight
    data.title_graph = None
    assert data.graph.edge_index.shape == (2, 0)


def test_the_shapes_are_those_of_the_manual(export):
    data = BugReports(export, "tiny", batch_size=8)
    data.setup()
    batch = next(iter(data.train_dataloader()))
    page = Path(gedbd.__file__).parents[1] / "docs" / "guides" / "python.md"
    rows = re.findall(r"^\| (`[^|]+`) \| `\(([^)]+)\)` \|", page.read_text(), re.MULTILINE)
    sizes = {"2": 2, "N": REPORTS}
    named = [(name, axes) for names, axes in rows for name in re.findall(r"`(\w+)`", names)]
    assert {*Batch._fields, *data.graph.keys()} - {"num_nodes"} < {name for name, _ in named}
    for name, axes in named:
        value = getattr(next(holder for holder in (batch, data.graph, data) if hasattr(holder, name)), name)
        for axis, size in zip(re.findall(r"\w+", axes), value.shape, strict=True):
            assert sizes.setdefault(axis, size) == size, name
    assert set(sizes) == {"2", "N", "E", "r", "U", "L", "P"}


def test_metrics_of_an_epoch():
    loss = EpochLoss()
    loss.update(torch.tensor(1.0), 3)
    loss.update(torch.tensor(2.0), 1)
    assert loss.compute() == pytest.approx(1.25)
    pairs = EpochRows("scores", "labels")
    pairs.update(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
    pairs.update(torch.tensor([0.4]), torch.tensor([1]))
    scores, labels = pairs.compute()
    assert scores.tolist() == pytest.approx([0.9, 0.1, 0.4])
    assert labels.tolist() == [1, 0, 1]
    for latest, expected in ((False, [1.0, 2.0]), (True, [3.0, 2.0])):
        rows = EncodedRows(latest)
        rows.update(torch.tensor([4, 7]), torch.tensor([[1.0], [2.0]]))
        rows.update(torch.tensor([4]), torch.tensor([[3.0]]))
        n_id, z = rows.compute()
        assert n_id.tolist() == [4, 7]
        assert z.flatten().tolist() == expected
