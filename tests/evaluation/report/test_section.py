from gedbd.evaluation.report.section import first_of, with_models


def test_models_are_named_where_the_other_columns_do_not_tell_rows_apart():
    rows = [{"split": "time", "model": "a", "f1": 0.5}, {"split": "group", "model": "b", "f1": 0.4}]
    assert list(with_models(rows, ("split",))) == ["split", "f1"]
    assert list(with_models([*rows, rows[0] | {"model": "c"}], ("split",))) == ["split", "model", "f1"]


def test_what_is_not_drawn_is_counted():
    assert first_of([1, 2, 3], 2) == ([1, 2], " Figures show the first 2 of 3 settings.")
    assert first_of([1, 2], 2) == ([1, 2], "")
