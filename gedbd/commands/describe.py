"""Count the reports, duplicates, dates and words of a corpus."""

from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.command_output import is_json_asked, print_table, record
from gedbd.io.console import open_console, print_line


@command("describe")
def main(cfg: DictConfig) -> None:
    """Reads the corpus, and the label files published with it, and prints its fields, counts and warnings."""
    from gedbd.corpora.corpus import Corpus
    from gedbd.corpora.statistics import corpus_statistics, fields_table, notes_on, statistics_table
    from gedbd.triage.backtesting.measured_suggestions import enough_duplicates

    if "subset" in cfg.dataset:
        corpora = instantiate(cfg.dataset, _target_="gedbd.corpora.readers.bughub.read_parts")
    else:
        corpora = [instantiate(cfg.dataset)]
    console = open_console()
    described = corpus_statistics(corpora)
    for corpus in corpora:
        if isinstance(corpus, Corpus) and corpus.documents.fields and not is_json_asked():
            print_table(console, fields_table(corpus.documents), title=corpus.name if len(corpora) > 1 else "")
            for line in corpus.documents.left_out:
                print_line(console, f"{corpus.name}: {line}")
    print_table(console, statistics_table(described), title="")
    lines = [f"{corpus.name}: {warning}" for corpus in corpora for warning in corpus.warnings]
    if not is_json_asked():
        advice = [enough_duplicates(corpus) for corpus in corpora if isinstance(corpus, Corpus)]
        lines = [*notes_on(described), *lines, *advice]
    for line in lines:
        print_line(console, line)
    record(corpora=described)
