"""The sections of a run's page."""

from matplotlib.figure import Figure

from gedbd.evaluation.report.section import Section
from gedbd.tasks.code_probe.figures import CAPTIONS, FAMILIES
from gedbd.tasks.code_probe.result import ProbeResult

TEXTS = {
    "types_and_roles": (
        "Logistic regression predicts the type and the role of a variable from the mean vector of its tokens; the"
        " encoder reads the code without nodes, types or roles. majority is the most frequent class of the training"
        " part, identifier a regression on the characters of the name, untrained the same architecture with random"
        " weights. Macro F1 is the mean over the classes of the test part."
    ),
    "flow_of_data": (
        "Logistic regression on the vectors of two variables of a method, their product and their difference. There"
        " are as many pairs without a flow of data as with one, as often with the same name and at the same distances,"
        " so that name_and_distance, which sees nothing else, is near 0.5."
    ),
    "search": (
        "The method that a comment belongs to among the methods of all comments, by the cosine of mean vectors:"
        " zero-shot, and after a short contrastive training, the same for every encoder. With a hidden name, the"
        " method's own name is replaced, because it often repeats the comment. With graph, the method is read with its"
        " flow graph; BM25 is not trained and has the same value in both."
    ),
}
DIFFERENCES_TEXT = (
    "A method less the one that it is compared with, on the same variables, pairs and queries. The first interval is a"
    " paired bootstrap over methods of the test part; the one over seeds is Student's t and covers the choice of the"
    " seed."
)


def sections(result: ProbeResult, drawn: dict[str, Figure]) -> list[Section]:
    """The sections of the page; those without rows are left out.

    Args:
        result: What the run has measured.
        drawn: The figures by name, see ``draw``.
    """
    made = []
    for name, measures in FAMILIES.items():
        rows = result.table[result.table["measure"].isin(measures)]
        if len(rows):
            made.append(Section(name.replace("_", " ").capitalize(), TEXTS[name], [rows], _figures(drawn, name)))
    if len(result.differences):
        figures = _figures(drawn, "differences")
        made.append(Section("Differences", DIFFERENCES_TEXT, [result.differences], figures))
    return made


def _figures(drawn: dict[str, Figure], name: str) -> list[tuple[str, str, Figure]]:
    return [(name, CAPTIONS[name], drawn[name])]
