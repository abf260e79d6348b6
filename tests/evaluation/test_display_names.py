import pytest

from gedbd.evaluation.display_names import column_name, format_p_value, is_p_value


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("rr@10", "RR@10"),
        ("pool map@10", "pool MAP@10"),
        ("average_precision", "average precision"),
        ("closure_f1", "closure F1"),
        ("p of MRR", "p of MRR"),
        ("model", "model"),
        ("fusion.lambda_text", "fusion.lambda_text"),
    ],
)
def test_column_names(name, shown):
    assert column_name(name) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "<0.001"), (0.00099, "<0.001"), (0.001, "0.001"), (1.0, "1.000"), (float("nan"), ""), (None, "")],
)
def test_small_p_values_are_not_shown_as_zero(value, shown):
    assert format_p_value(value) == shown


@pytest.mark.parametrize("name", ["p of MRR", "mrr_p_value", "p_value", "mann_whitney_p"])
def test_columns_of_p_values(name):
    assert is_p_value(name)
    assert not is_p_value(name.replace("p", "d"))
