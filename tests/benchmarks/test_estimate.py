"""The cost model: its arithmetic, the reports that it makes up, and the numbers in the manual."""

import re
from pathlib import Path

import numpy as np
import pytest
from estimate import PUBLISHED, corpus_to_count, count_reports, jobs_of, main, run_cost

import gedbd
from gedbd.configuration.options import compose_options

PAGE = (Path(gedbd.__file__).parents[1] / "docs" / "guides" / "training.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE, flags=re.MULTILINE)
DEMO = ("experiment=paper_code", "dataset=demo", "encoder=bert", "pairs.fill_to=600", "fusion=text_only")


def cost(*words: str) -> dict[str, object]:
    return run_cost(compose_options("train", [*DEMO, *words]), "A100")


def test_time_and_memory_are_those_of_the_formula():
    sizes, validated, once, nodes, counts = count_reports(compose_options("train", DEMO))
    assert (len(sizes), nodes, counts) == (6, 0, "demo: its reports")  # 360 of 600 pairs, 64 at a time
    one = cost("trainer.max_epochs=1")
    seconds = 4.6e-05 * 256 * (sizes.sum() + validated / 3 + once / 3)
    assert one["at most"] == pytest.approx(seconds / 60, abs=0.06)
    assert one["GB"] == pytest.approx((16 * 109_580_672 + 710_444 * 256 * sizes.max()) / 1e9, abs=0.06)
    assert one["minutes"] < one["at most"]
    three = cost("trainer.max_epochs=3", "seeds=2", "matmul_precision=high")
    assert (three["epochs"], three["steps"]) == (3, 18)
    faster = 8.63e-06 * 256 * (3 * sizes.sum() + validated + once / 3)
    assert three["at most"] == pytest.approx(2 * faster / 60, abs=0.06)
    assert cost("trainer.precision=bf16-mixed")["GB"] < one["GB"]


def test_each_device_takes_its_share_and_fsdp_divides_the_weights():
    one, ddp, fsdp = cost(), cost("trainer=ddp", "trainer.devices=4"), cost("trainer=fsdp", "trainer.devices=4")
    assert (one["steps"], ddp["steps"]) == (30, 10)
    assert ddp["GB"] - fsdp["GB"] == pytest.approx(0.75 * 16 * 109_580_672 / 1e9, abs=0.11)
    assert cost("chunk_tokens=1024")["GB"] == pytest.approx((16 * 109_580_672 + 710_444 * 1024) / 1e9, abs=0.06)


@pytest.mark.parametrize(("dataset", "subset"), PUBLISHED)
def test_made_up_reports_have_the_published_counts(dataset, subset):
    cfg = compose_options("train", [f"dataset={dataset}", f"dataset.subset={subset}", "encoder=bert", "data_dir=none"])
    corpus, source = corpus_to_count(cfg)
    sizes = np.bincount(corpus.group)
    grouped = sizes[sizes > 1]
    in_groups, groups, pairs = PUBLISHED[dataset, subset]
    total = cfg.dataset.rows["reports" if subset == "all" else subset]
    assert (sizes.sum(), grouped.sum(), len(grouped)) == (total, in_groups, groups)
    assert (grouped * (grouped - 1) // 2).sum() == pytest.approx(pairs, rel=0.04)
    assert f"made-up, {total:,} reports" in source


def test_a_label_file_is_counted_where_the_reports_are_missing(tmp_path):
    (tmp_path / "EclipsePlatform").mkdir()
    (tmp_path / "EclipsePlatform" / "train.csv").write_text("Issue_id,Duplicate\n1,2;3\n2,1;3\n3,1;2\n4,NULL\n")
    cfg = compose_options("train", ["experiment=paper_text", "dataset=eclipse", f"data_dir={tmp_path}"])
    corpus, source = corpus_to_count(cfg)
    assert sorted(np.bincount(corpus.group)[np.unique(corpus.group)]) == [1, 3]
    assert source == "eclipse: its label file train"


def test_the_runs_of_a_sweep_are_those_of_the_experiment_unless_typed():
    assert len(jobs_of(["experiment=paper_tables"])) == 16
    typed = jobs_of(["experiment=paper_tables", "encoder=bert", "seed=0,1"])
    assert len(typed) == 8
    assert ["dataset=eclipse", "fusion=text_only", "experiment=paper_tables", "encoder=bert", "seed=0"] in typed


@pytest.mark.integration
def test_the_runs_of_a_sweep_are_listed_with_what_their_cost_rests_on(capsys):
    main(["experiment=paper_tables", "encoder=bert", "dataset=eclipse", "data_dir=none"])
    printed = capsys.readouterr().out
    assert "2 runs on one A100" in printed
    assert "68,124 reports" in printed
    assert "calculated, not measured" in printed
    with pytest.raises(ValueError, match="device=A1, encoder=bert: no costs are known, only of A100 bert"):
        main(["device=A1", "encoder=bert"])
    with pytest.raises(ValueError, match="epochs"):
        main(["encoder=bert", "trainer.epochs=3"])


@pytest.mark.integration
@pytest.mark.parametrize(("words", "steps", "memory", "minutes", "most"), ROWS)
def test_the_numbers_of_the_manual_are_those_of_the_model(words, steps, memory, minutes, most):
    found = run_cost(compose_options("train", [*words.split(), "data_dir=none"]), "A100")
    assert [found[name] for name in ("steps", "GB", "minutes", "at most")] == [
        int(steps.replace(",", "")),
        *map(float, (memory, minutes, most)),
    ]
