"""The error analysis of duplicate questions, on ranks made by hand and on the paper's own examples."""

import pandas as pd
import pytest
from question_errors import analyse, published_examples


def test_what_the_network_gains_is_compared_with_words_and_neighbours():
    table = pd.DataFrame(
        {
            "te": [1, 2, 8, 100.0, 5],
            "te_network": [10, 4, 4, 10.0, 5],
            "words": [12, 9, 5, 3, 99],
            "neighbours": [1] * 5,
        }
    )
    table.loc[3, "neighbours"] = 7
    found = analyse(table)
    # log10 of the ratios: -1, -.3, .3, 1, 0; the last question is on neither side.
    # Ranks of words 4 3 2 1 5, of gains 1 2 4 5 3.
    assert found.loc["words", ["TE better, median", "TE+network better, median"]].tolist() == [10.5, 4.0]
    assert found.loc["words", "Spearman"] == pytest.approx(1 - 6 * (9 + 1 + 4 + 16 + 4) / 120)
    assert found.loc["neighbours", ["TE better, median", "TE+network better, median"]].tolist() == [1.0, 4.0]


def test_the_papers_examples_are_those_of_its_table_3():
    table = published_examples()
    assert table.loc[363584].to_dict() == {"te": 45, "te_network": 39, "words": 3, "neighbours": 89}
    assert (table["te"] < table["te_network"]).tolist().count(True) == 5
    found = analyse(table)
    assert found["TE better, median"].tolist() == [11, 28]
    assert found["TE+network better, median"].tolist() == [4, 68]
