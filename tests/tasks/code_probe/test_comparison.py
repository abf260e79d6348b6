"""Tables over seeds and methods, and the choice of the penalty, on numbers made by hand."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from gedbd.tasks.code_probe.comparison import by_seed, compared_pairs, differences_table, results_table
from gedbd.tasks.code_probe.linear import Examples, fit_probe
from gedbd.tasks.code_probe.measures import mean
from gedbd.tasks.code_probe.probes import Measured


def measured(method, values, rows):
    """A measure with one value a method of the corpus."""
    return Measured(method, "mrr", mean(np.array(values), np.arange(len(rows)), len(rows)), np.array(rows))


def test_values_and_differences_over_seeds():
    found = by_seed(
        [
            measured("graph", [1.0, 0.5], [4, 2]),
            measured("graph", [0.5, 0.5], [2, 9]),
            measured("mlm", [0.5, 0.5], [4, 2]),
            measured("mlm", [0.25, 0.5], [2, 9]),
        ]
    )
    results = results_table(found).set_index("method")
    assert results.loc["graph", "value"] == pytest.approx((0.75 + 0.5) / 2)
    assert results.loc["graph", "seeds"] == 2
    table = differences_table(found, [("graph", "mlm"), ("graph", "bm25")])
    assert table[["method", "against"]].to_numpy().tolist() == [["graph", "mlm"]]
    row = table.iloc[0]
    assert row["difference"] == pytest.approx((0.25 + 0.125) / 2)
    # Differences .25 and .125: mean .1875, standard error .0625; Student's t with one degree of freedom: 12.706.
    assert row["seeds_high"] == pytest.approx(0.1875 + 12.706 * 0.0625, rel=1e-3)
    # In no sample is a method worse with the graph.
    assert 0 <= row["difference_low"] < row["difference"] < row["difference_high"] <= 0.5


def test_a_constant_difference_has_no_spread_over_methods():
    rng = np.random.default_rng(0)
    values = rng.random(50)
    found = by_seed([measured("graph", values + 0.1, range(50)), measured("mlm", values, range(50))])
    row = differences_table(found, [("graph", "mlm")]).iloc[0]
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((0.1, 0.1))
    assert np.isnan(row["seeds_low"])
    wide = results_table(found).iloc[0]
    assert wide["value_high"] - wide["value_low"] == pytest.approx(4 * np.std(values) / np.sqrt(50), rel=0.15)


def test_which_methods_are_compared():
    pairs = compared_pairs(["graph", "mlm"], "mlm", True)
    assert ("graph", "mlm") in pairs
    assert ("graph_with_graph", "mlm") in pairs
    assert ("graph_with_graph", "graph") in pairs
    assert ("mlm", "untrained") in pairs
    assert ("mlm", "mlm") not in pairs
    assert len(pairs) == len(set(pairs))
    assert compared_pairs(["graph"], "mlm", False) == [("graph_with_graph", "graph")]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_probe_takes_the_penalty_that_is_best_on_validation(sparse):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20)).astype(np.float32)
    label = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(int)
    convert = csr_array if sparse else np.asarray
    train, val, test = (
        Examples(convert(x[rows]), label[rows]) for rows in (slice(100), slice(100, 200), slice(200, 300))
    )
    strengths = (1e-6, 1e-2, 1.0)
    each = [fit_probe(train, val, [strength]).accuracy for strength in strengths]
    probe = fit_probe(train, val, strengths)
    assert probe.accuracy == max(each) > each[0]
    assert (probe.predict(test.x) == test.y).mean() > 0.85
    assert ((probe.scores(test.x) > 0) == (probe.predict(test.x) == 1)).all()
