"""The example pairs of a run in the terminal: a block for each pair, whose titles are not cut."""

import pandas as pd
from rich.console import Console

from gedbd.corpora.urls import URL_OF
from gedbd.io.console_tables import print_hanging
from gedbd.io.json_output import is_json_asked
from gedbd.io.printing import print_line, print_path

CLASSES = ("other pair", "duplicate")


def print_example_pairs(console: Console, examples: pd.DataFrame) -> None:
    """Prints pairs to look at.

    Args:
        console: Where they go.
        examples: See ``example_pairs`` in ``gedbd.evaluation.result_tables``, with addresses of the reports if known.
    """
    if is_json_asked():
        return
    print_line(console, "\nexample pairs", style="italic")
    width = max((len(str(one)) for name in ("id_1", "id_2") for one in examples[name]), default=0)
    for row in examples.to_dict("records"):
        kind, predicted = CLASSES[row["label"]], CLASSES[row["predicted"]]
        print_line(console, f"{kind}, {row['example']}: score {row['score']:.3f}, predicted {predicted}")
        for side in ("1", "2"):
            print_hanging(console, f"  {row[f'id_{side}']!s:<{width}}  ", row[f"title_{side}"])
            url = row.get(f"{URL_OF}id_{side}")
            if url:
                print_path(console, f"  {'':<{width}} ", url)
