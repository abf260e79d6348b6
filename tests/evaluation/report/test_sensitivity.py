"""Which settings are compared over an option, and what the section says of them."""

import pytest

from gedbd.evaluation.report.optional_sections import sensitivity
from gedbd.evaluation.report.run_settings import group_settings


def captions(section) -> list[str]:
    return [caption for _, caption, _ in section.figures]


def test_two_encoders_are_no_sweep(leave):
    settings = group_settings([leave("a"), leave("b", "encoder=minilm")])
    assert settings[0].counted["encoder.dim"] != settings[1].counted["encoder.dim"]
    assert sensitivity("demo", settings) is None


def test_one_option_is_drawn_as_lines_with_means_and_deviations_over_seeds(leave):
    runs = [leave(f"{dim}_{seed}", f"encoder.dim={dim}", f"seed={seed}", f1=f1) for dim, seed, f1 in SEEDS]
    section = sensitivity("demo", group_settings([*runs, leave("other", "patience=9")]))
    table = section.tables[0]
    assert table["encoder.dim"].tolist() == [8, 16]
    assert table["seeds"].tolist() == [2, 1]
    assert table["f1"].tolist() == pytest.approx([0.5, 0.25])
    assert table["f1 deviation"].tolist()[0] == pytest.approx(0.1 * 2**0.5)
    assert captions(section) == ["F1 over encoder.dim"]
    (line,) = section.figures[0][2].axes[0].containers
    assert line.lines[0].get_ydata().tolist() == pytest.approx([0.5, 0.25])


SEEDS = [(8, 0, 0.4), (8, 1, 0.6), (16, 0, 0.25)]


def test_options_that_vary_one_at_a_time_get_a_line_each(leave):
    options = ["loss.margin=0.0", "loss.margin=0.5", "fusion.lambda_text=0.3", "trainer.max_epochs=9"]
    section = sensitivity("demo", group_settings([leave(option, option) for option in options]))
    assert captions(section) == ["F1 over fusion.lambda_text", "F1 over loss.margin", "F1 over trainer.max_epochs"]
    assert "None" not in section.title + section.text + " ".join(captions(section))


def test_two_options_that_vary_together_get_a_grid_for_each_value_of_the_rest(leave):
    cells = [(a, b, c) for a in (0.3, 0.7) for b in (0.0, 0.5) for c in (1, 4)]
    names = ("fusion.lambda_text", "loss.margin", "patience")
    runs = [
        leave(str(place), *(f"{name}={value}" for name, value in zip(names, cell, strict=True)), f1=0.1 + place / 100)
        for place, cell in enumerate(cells)
    ]
    section = sensitivity("demo", group_settings(runs))
    assert captions(section) == [
        f"F1 over fusion.lambda_text and loss.margin: tiny, text + graph, patience={patience}" for patience in (1, 4)
    ]
    texts = [text.get_text() for text in section.figures[0][2].axes[0].texts]
    assert sorted(texts) == ["0.100", "0.120", "0.140", "0.160"]


def test_the_dimension_that_a_layer_takes_over_is_no_second_option(leave):
    runs = [leave(str(dim), "fusion=concat", f"encoder.dim={dim}") for dim in (8, 16)]
    assert captions(sensitivity("demo", group_settings(runs))) == ["F1 over encoder.dim"]


def test_runs_of_other_settings_are_not_joined(leave):
    runs = [leave("a", "encoder.dim=8"), leave("b", "encoder.dim=16", "optimizer.lr=0.1")]
    assert sensitivity("demo", group_settings(runs)) is None
