"""Download a published corpus: tables of bughub, or an archive of Stack Exchange."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command


@command("download")
def main(cfg: DictConfig) -> None:
    """Downloads the files of a corpus, and prints where they are."""
    dataset = cfg.dataset
    if "rows" in dataset:
        from gedbd.corpora.file_download import fetch_tables

        rows = {dataset.file: dataset.rows.reports, "train.csv": dataset.rows.train, "test.csv": dataset.rows.test}
        lines = fetch_tables(f"{dataset.base_url}/{dataset.folder}", Path(dataset.data_dir) / dataset.folder, rows)
    elif "file" in dataset:
        from gedbd.corpora.file_download import fetch_file
        from gedbd.questions.stackexchange.dump import check_archive

        target = Path(dataset.data_dir) / dataset.folder / dataset.file
        lines = [fetch_file(f"{dataset.base_url}/{dataset.file}", target, check_archive)]
    else:
        raise ValueError("this dataset has no public address; choose one that has, such as dataset=eclipse")
    for line in lines:
        print(line)
