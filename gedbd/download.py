"""Fetch a published corpus: ``python -m gedbd.download dataset=eclipse data_dir=data``."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.corpora.download import fetch_tables


@command("download")
def main(cfg: DictConfig) -> None:
    """Fetch the corpus's reports and label files, and say where they are."""
    dataset = cfg.dataset
    if "base_url" not in dataset:
        raise ValueError("this dataset has no public address; choose one that has, such as dataset=eclipse")
    rows = {
        dataset.file: dataset.rows.reports,
        "train.csv": dataset.rows.train,
        "test.csv": dataset.rows.test,
    }
    place = Path(dataset.data_dir) / dataset.folder
    for line in fetch_tables(f"{dataset.base_url}/{dataset.folder}", place, rows):
        print(line)


if __name__ == "__main__":
    main()
