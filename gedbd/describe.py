"""Count the reports, duplicates, dates and words of a corpus."""

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command


@command("describe")
def main(cfg: DictConfig) -> None:
    """Reads the corpus, and the label files published with it, and prints counts and warnings."""
    from gedbd.corpora.statistics_table import statistics_table

    if "subset" in cfg.dataset:
        corpora = instantiate(cfg.dataset, _target_="gedbd.corpora.readers.bughub.read_parts")
    else:
        corpora = [instantiate(cfg.dataset)]
    console = Console()
    console.print(statistics_table(corpora))
    for corpus in corpora:
        for warning in corpus.warnings:
            console.print(f"{corpus.name}: {warning}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
