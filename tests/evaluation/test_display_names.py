import pytest

from gedbd.evaluation.display_names import column_name


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
