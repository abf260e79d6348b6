"""The made-up corpus of Eclipse's form: bughub's reader finds its reports, dates and groups."""

import pandas as pd
from eclipse_size import CORPORA, FOLDER, write_corpus

from gedbd.corpora.readers.bughub import read_bughub

COLUMNS = ("Issue_id", "Duplicated_issue", "Title", "Description", "Created_time", "Resolved_time", "Component")


def test_label_files_give_the_ids_and_other_trackers_the_texts(tmp_path):
    labels = tmp_path / "bughub_labels" / FOLDER
    labels.mkdir(parents=True)
    pd.DataFrame({"Issue_id": [10, 2, 30, 9], "Duplicate": ["2", "NULL", "", "10;2"]}).to_csv(labels / "train.csv.xz")
    pd.DataFrame({"Issue_id": [41, 40, 50, 60], "Duplicate": ["40", "", "", ""]}).to_csv(labels / "test.csv.xz")
    for name in CORPORA:
        (tmp_path / name).mkdir()
        texts = pd.DataFrame("x", index=range(3), columns=COLUMNS).assign(Title=[f"{name} {row}" for row in range(3)])
        texts.to_csv(tmp_path / name / "reports.csv.xz", index=False)
    assert write_corpus(tmp_path / "all" / FOLDER, tmp_path) == 8
    corpus = read_bughub("eclipse", str(tmp_path / "all"), FOLDER, "eclipse_platform.zip", "", rows={"reports": 8})
    assert corpus.reports["id"].tolist() == ["2", "9", "10", "30", "40", "41", "50", "60"]
    assert corpus.group.tolist() == [0, 0, 0, 3, 4, 4, 6, 7]
    assert corpus.reports["title"].nunique() == 8
    assert (corpus.reports["resolved_at"] - corpus.reports["created_at"]).unique().tolist() == [pd.Timedelta(days=30)]
    assert not any("published" in warning or "date" in warning for warning in corpus.warnings)
    assert write_corpus(tmp_path / "half" / FOLDER, tmp_path, one_in=2) == 4
    half = read_bughub("eclipse", str(tmp_path / "half"), FOLDER, "eclipse_platform.zip", "")
    assert half.reports["id"].tolist() == ["2", "10", "40", "41"]
