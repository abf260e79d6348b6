"""What a training takes on a GPU, by a cost model: it draws the batches of an epoch, and encodes and trains nothing.

python benchmarks/estimate.py encoder=roberta dataset=eclipse trainer=a100   (options of gedbd train)
python benchmarks/estimate.py experiment=paper_tables device=A100            (each run of a sweep)

``seconds = s (tokens trained + tokens encoded / 3)``, ``bytes = 16 weights + b tokens of the largest batch``: s is the
time of a token forward and backward, of which a third is forward, and b what it keeps for the gradient. AdamW keeps 16
bytes a weight. ``gpu_costs.csv`` holds s and b; ``gpu.py`` prints its rows.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command_words import MULTIRUN_FLAGS, option_of
from gedbd.configuration.option_types import plain_options
from gedbd.configuration.options import compose_options, register_resolvers
from gedbd.corpora.corpus import TRAIN, Corpus
from gedbd.corpora.readers.bughub import find_reports, find_table, read_labels
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.prepare import AUTO, prepare_corpus
from gedbd.experiments.validation_ranking import is_cheap, needs_ranking
from gedbd.io.command_output import print_table
from gedbd.io.console import open_console, print_line
from gedbd.io.files import CONF_DIR
from gedbd.io.table_files import read_csv
from gedbd.sampling.batches import SamplerInputs

COSTS = Path(__file__).with_name("gpu_costs.csv")
# Reports in groups, groups, and pairs inside them: counted in bughub's label files.
PUBLISHED = {
    ("eclipse", "train"): (17_518, 6_282, 26_617),
    ("eclipse", "all"): (21_195, 7_631, 32_474),
    ("thunderbird", "train"): (10_046, 2_772, 33_162),
    ("thunderbird", "all"): (12_170, 3_311, 40_906),
}
# Deciles of the number of tokens of 2,000 of Xamarin's reports, cut to 512.
LENGTHS = (3, 55, 86, 116, 154, 207, 283, 435, 512, 512, 512)
BYTES_A_WEIGHT = 16  # float32 weight, gradient and AdamW's two means
FORWARD = 1 / 3  # of the time of a token forward and backward
NOTE = (
    "Minutes: for reports as long as Xamarin's, and at most, if all have encoder.max_tokens. Not counted: start,"
    " reading and tokenizing, titles, the graph (1% of a step on a CPU), and what devices tell each other."
)


def main(words: list[str]) -> None:
    """Prints a row for each run of a training or sweep, the sum of the hours, and what they rest on."""
    register_resolvers()
    device = next((word.partition("=")[2] for word in words if option_of(word) == "device"), "A100")
    jobs = jobs_of([word for word in words if option_of(word) != "device" and word not in MULTIRUN_FLAGS])
    common = set.intersection(*map(set, jobs)) if len(jobs) > 1 else set()
    runs = pd.DataFrame([run_cost(compose_options("train", job), device) for job in jobs])
    runs.insert(0, "run", [" ".join(word for word in job if word not in common) for job in jobs])
    console = open_console()
    print_table(console, runs.drop(columns=["counts", "costs"]), f"{len(runs)} runs on one {device}")
    total, most = runs["minutes"].sum() / 60, runs["at most"].sum() / 60
    print_line(console, f"In all {total:.1f} hours, at most {most:.1f}.")
    for line in (*runs["counts"].unique(), *runs["costs"].unique(), NOTE):
        print_line(console, line)


def jobs_of(words: list[str]) -> list[list[str]]:
    """The options of each run of a sweep over all combinations; one list if nothing is swept."""
    parser = OverridesParser.create()
    single = [word for word in words if not parser.parse_override(word).is_sweep_override()]
    compose_options("train", single)  # checks them
    with initialize_config_dir(CONF_DIR, job_name="train", version_base="1.3"):
        params = compose("train", single, return_hydra_config=True).hydra.sweeper.get("params") or {}
    swept = [f"{name}={values}" for name, values in params.items() if name not in map(option_of, words)]
    (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides([*swept, *words]), max_batch_size=None)
    return [list(job) for job in jobs]


def run_cost(cfg: DictConfig, device: str) -> dict[str, Any]:
    """Epochs, steps, memory and time of a run, as a row of a table; ``counts`` and ``costs``: what they come from.

    Raises:
        ValueError: If there are no constants for the device and encoder.
    """
    seconds, kept, constants = _constants(cfg, device)
    given = cfg.trainer.devices
    devices = (given if isinstance(given, int) and given > 0 else 1) * int(cfg.trainer.get("num_nodes", 1))
    sizes, validated, once, nodes, source = count_reports(cfg, devices)
    cut = int(cfg.encoder.max_tokens)
    lengths = np.interp(np.linspace(0, 1, 1001), np.linspace(0, 1, len(LENGTHS)), LENGTHS).clip(max=cut)
    epochs = int(cfg.trainer.max_epochs)
    reports = epochs * (sizes.sum() + FORWARD * validated / devices) + FORWARD * once / devices
    minutes = float(reports * cut * seconds * int(cfg.seeds) / 60)
    is_sharded = not isinstance(cfg.trainer.get("strategy", ""), str)
    weights = constants["weights"] / (devices if is_sharded else 1) + nodes * cfg.encoder.dim
    tokens = min(sizes.max() * cut, cfg.chunk_tokens or np.inf)
    return {
        "epochs": epochs,
        "steps": epochs * len(sizes),
        "reports": epochs * int(sizes.sum()),
        "GB": round(float(BYTES_A_WEIGHT * weights + kept * tokens) / 1e9, 1),
        "minutes": round(minutes * float(lengths.mean()) / cut, 1),
        "at most": round(minutes, 1),
        "counts": source,
        "costs": f"Costs of a token on {device}: {constants['source']}",
    }


def _constants(cfg: DictConfig, device: str) -> tuple[float, float, dict[str, Any]]:
    """Seconds and bytes a token in the precision of a training, and their row of ``gpu_costs.csv``."""
    numbers = ("float32_seconds", "tf32_seconds", "bfloat16_seconds", "float32_bytes", "bfloat16_bytes")
    table = read_csv(COSTS, "weights", *numbers)
    found = table[(table["device"] == device) & (table["encoder"] == cfg.encoder.name)]
    if found.empty:
        known = ", ".join(f"{row.device} {row.encoder}" for row in table.itertuples())
        raise ValueError(f"device={device}, encoder={cfg.encoder.name}: no costs are known, only of {known}")
    row = dict(found.iloc[-1])
    if str(plain_options(cfg)["trainer"]["precision"]).startswith(("bf16", "16", "${auto_precision")):
        return row["bfloat16_seconds"], row["bfloat16_bytes"], row
    return row["float32_seconds" if cfg.matmul_precision == "highest" else "tf32_seconds"], row["float32_bytes"], row


def count_reports(cfg: DictConfig, devices: int = 1) -> tuple[np.ndarray, int, int, int, str]:
    """Draws the batches of an epoch.

    Returns:
        Reports of each batch of a device, reports that validation encodes, those that are encoded once, before training
        and in the test, nodes of the graph, and what the reports are.
    """
    corpus, source = corpus_to_count(cfg)
    prepared = prepare_corpus(cfg, corpus)
    training = prepared.pairs[prepared.pairs["part"] == "train"]
    tracker = corpus.documents.first_of_tracker
    inputs = SamplerInputs(training, prepared.observed_group, prepared.parts == TRAIN, None, tracker)
    sizes = [len(batch.rows) for batch in instantiate(cfg.batches)(inputs, 0, devices)]

    def needed(*parts: str, ranks: bool = True) -> int:
        pairs = prepared.pairs[prepared.pairs["part"].isin(parts)]
        ranked = [task.needed for task in prepared.queries.get(parts[-1], {}).values() if ranks]
        return len(np.unique(np.concatenate([pairs["earlier"], pairs["later"], *ranked])))

    uses_graph = cfg.graph.rule is not None and instantiate(cfg.fusion).uses_graph
    nodes = len(prepared.corpus) if uses_graph else 0
    tested, validated, of_pairs = needed("val", "test"), needed("val"), needed("val", ranks=False)
    before = nodes if uses_graph and cfg.graph.features == "text" else tested
    if cfg.ranking.parts == AUTO and not needs_ranking(cfg) and not is_cheap(validated - of_pairs, sum(sizes)):
        validated = of_pairs
    return np.array(sizes), validated, before + tested, nodes, source


def corpus_to_count(cfg: DictConfig) -> tuple[Corpus, str]:
    """The corpus, or that of its label file, or one made up with the published counts; and which of them it is."""
    name, subset = cfg.dataset.name, cfg.dataset.get("subset")
    if (name, subset) not in PUBLISHED:
        return read_corpus(cfg.dataset, cfg.cache_dir), f"{name}: its reports"
    directory = Path(cfg.data_dir, cfg.dataset.folder)
    if find_reports(directory, cfg.dataset.file):
        return read_corpus(cfg.dataset, cfg.cache_dir), f"{name}: its reports"
    if subset == "train" and find_table(directory, subset):
        return read_labels(name, cfg.data_dir, cfg.dataset.folder, subset), f"{name}: its label file {subset}"
    total = cfg.dataset.rows["reports" if subset == "all" else subset]
    in_groups, groups, pairs = PUBLISHED[name, subset]
    # Groups of 2, and as many of m as the pairs need: growing from 2 to m adds (m + 1) / 2 pairs a member on average.
    further = in_groups - 2 * groups
    larger = round(2 * (pairs - groups) / further) - 3  # m - 2
    sizes = np.concatenate([np.full(groups, 2), np.full(total - in_groups, 1)])
    sizes[: further // larger] += larger
    sizes[further // larger] += further % larger
    sizes = np.random.default_rng(0).permutation(sizes)
    dates = pd.date_range("2000-01-01", periods=total, freq="h", tz="UTC")
    reports = pd.DataFrame({"id": np.arange(total).astype(str), "title": "", "description": "", "created_at": dates})
    counts = f"{total:,} reports, {groups:,} groups of consecutive ones with about {pairs:,} pairs"
    return Corpus.of_table(name, reports, np.repeat(np.arange(len(sizes)), sizes)), f"{name}: made-up, {counts}"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
