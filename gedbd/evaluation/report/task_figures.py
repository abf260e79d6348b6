"""The sections of a report with figures that only some tasks have."""

from gedbd.evaluation.report.section import MAX_DRAWN, Section
from gedbd.evaluation.report.settings import Setting


def task_figures(settings: list[Setting]) -> list[Section]:
    """A section for each name of such a figure, such as ``tag_network``, with the first runs' figures.

    A figure that is the same in several settings, as that of their corpus, is shown once.
    """
    names = dict.fromkeys(name for setting in settings for name in setting.runs[0].captions)
    return [_section(name, [setting for setting in settings if name in setting.runs[0].captions]) for name in names]


def _section(name: str, settings: list[Setting]) -> Section:
    by_content: dict[bytes, Setting] = {}
    for setting in settings:
        by_content.setdefault(setting.runs[0].figure_file(name).read_bytes(), setting)
    drawn = list(by_content.values())[:MAX_DRAWN]
    figures = []
    for number, setting in enumerate(drawn):
        run = setting.runs[0]
        alone = [other.corpus for other in drawn].count(setting.corpus) == 1
        whose = setting.corpus if alone else f"{setting.label}, {setting.corpus}"
        figures.append((f"{name}_{number}", f"{whose}: {run.captions[name]}", run.figure_file(name)))
    more = len(by_content) - len(drawn)
    text = f"Figures show the first {MAX_DRAWN} of {len(by_content)} settings." if more else ""
    return Section(name.replace("_", " ").capitalize(), text, [], figures)
