"""Download a corpus that bughub publishes."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command


@command("download")
def main(cfg: DictConfig) -> None:
    """Downloads the reports and label files of a corpus, and prints where they are."""
    from gedbd.corpora.download import fetch_tables

    dataset = cfg.dataset
    if "base_url" not in dataset:
        raise ValueError("this dataset has no public address; choose one that has, such as dataset=eclipse")
    rows = {
        dataset.file: dataset.rows.reports,
        "train.csv": dataset.rows.train,
        "test.csv": dataset.rows.test,
    }
    folder = Path(dataset.data_dir) / dataset.folder
    for line in fetch_tables(f"{dataset.base_url}/{dataset.folder}", folder, rows):
        print(line)


if __name__ == "__main__":
    main()
