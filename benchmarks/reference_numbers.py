"""Every number that a fixed set of commands leaves, to hold two versions of gedbd against each other.

    python benchmarks/reference_numbers.py record OUT [--corpus HADOOP.csv.xz] [--only demo NAME ...] [--repo DIR]
    python benchmarks/reference_numbers.py compare OLD/numbers.json NEW/numbers.json [--renamed renamed.csv]

``record`` runs each command with an empty cache of its own, so that no number depends on what ran before, and writes
OUT/numbers.json: command/file/column/row -> number, stored exactly; arrays, weights and columns of text as digests.
``renamed.csv`` has rows ``old,new``: regular expressions and what takes their place in the keys of the first file.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import torch
from onnx.numpy_helper import to_array
from safetensors.numpy import load_file

CPU = "trainer.accelerator=cpu trainer.enable_progress_bar=false"
TINY = f"train {CPU} encoder=tiny optimizer.lr=1e-3 trainer.max_epochs=2"
HADOOP = "dataset=csv dataset.path={corpus} dataset.name=hadoop"
NEWEST = f"{HADOOP} dataset.last_n=3000"
COMMANDS = {  # run in OUT/work/NAME; ../NAME/ is the folder of another command, which then runs first
    "demo_describe": "describe dataset=demo",
    "demo_backtest": "backtest dataset=demo confidence_level=0.5 target_precision=0.1",
    "demo_minilm": f"train {CPU} encoder.max_tokens=32 trainer.max_epochs=1 +trainer.limit_train_batches=3",
    "demo_graph": TINY,
    "demo_no_graph": f"{TINY} graph=none",
    "demo_knn": f"{TINY} graph=knn graph.fields=[component,version]",
    "demo_threshold": f"{TINY} graph=threshold graph.scope=train graph.features=learnable graph.rule.cosine=0.5",
    "demo_grouped": f"{TINY} pairs=grouped batch_size=32",
    "demo_hard": f"{TINY} pairs=grouped batch_size=32 batches.hard=0.5 batches.singletons=0.25 trainer.max_epochs=3",
    "demo_supcon": f"{TINY} experiment=supcon_paper dataset=demo encoder.max_tokens=64",
    "demo_fields": f"{TINY} text=fields encoder.max_tokens=128 pairs=pk loss=supervised_contrastive"
    " protocol=test_pool ranking.top_k=[3,10] monitor=val/pool_map@3",
    "demo_softmax": f"{TINY} pairs=pk loss=multiple_negatives graph=none chunk_tokens=256",
    "demo_seeds": f"{TINY} seeds=2 split=fold trainer.max_epochs=1",
    "demo_pair_split": f"{TINY} split=pair ranking.parts=[]",
    "demo_concat": f"{TINY} fusion=concat ranking.window_days=365 labels.fraction=0.5",
    "demo_paper_code": f"{TINY} experiment=paper_code dataset=demo pairs.fill_to=1000",
    "demo_paper_text": f"{TINY} experiment=paper_text dataset=demo pairs.random_negatives=300",
    "demo_sweep": f"{TINY} trainer.max_epochs=1 fusion.lambda_text=0.3,0.7 hydra.mode=MULTIRUN",
    "demo_two_processes": f"{TINY} trainer=ddp trainer.devices=2 encoder.dropout=0 graph=knn batch_size=14",
    "demo_evaluate_val": "evaluate run=../demo_fields/run part=val",
    "demo_evaluate_train": "evaluate run=../demo_graph/run part=train checkpoint=last",
    "demo_baselines": "baseline -m name=constant,closure,tfidf,bm25,rep,frozen,fusion dataset=demo",
    "demo_frozen_fields": "baseline name=frozen text=fields protocol=test_pool part=val dataset=demo",
    "demo_fusion_trained": "baseline name=fusion run=../demo_graph/run dataset=demo",
    "demo_backtest_trained": "backtest run=../demo_graph/run dataset=demo",
    "demo_index": "index run=../demo_backtest/run out=index",
    "demo_search": "search index=../demo_index/index file={queries}/demo.jsonl json=true",
    "demo_search_filtered": "search index=../demo_index/index file={queries}/demo.jsonl json=true top_k=3"
    " component=imap created_from=2022-06-01 created_before=2023-12-31",
    "demo_encode": "encode dataset=demo out=vectors.npz",
    "demo_encode_openvino": "encode dataset=demo backend=openvino out=vectors.npz",
    "demo_encode_trained": "encode run=../demo_minilm/run out=vectors.npz",
    "demo_export_onnx": "export run=../demo_graph/run format=onnx out=model",
    "demo_export_sentence": "export run=../demo_graph/run format=sentence_transformers out=model",
    "demo_compare": "compare run=../demo_graph/run against=../demo_no_graph/run out=compared.csv",
    "demo_report": "report ../demo_graph/run ../demo_no_graph/run ../demo_seeds/run ../demo_backtest/run out=page",
    "hadoop_describe": f"describe {HADOOP}",
    "hadoop_lexical": f"baseline -m name=constant,closure,tfidf,bm25,rep {HADOOP}",
    "hadoop_backtest": f"backtest {NEWEST} encoder.max_tokens=64",
    "hadoop_neural": f"baseline -m name=frozen,fusion {NEWEST} encoder.max_tokens=64",
    "hadoop_fields": f"baseline name=frozen text=fields protocol=test_pool {HADOOP} dataset.last_n=1000",
    "hadoop_graph": f"{TINY} trainer.max_epochs=1 {NEWEST} ranking.parts=[test]",
    "hadoop_index": "index run=../hadoop_backtest/run out=index",
    "hadoop_search": "search index=../hadoop_index/index file={queries}/hadoop.jsonl json=true",
    "hadoop_compare": "compare run=../hadoop_lexical/sweep/4 against=../hadoop_lexical/sweep/3 out=compared.csv",
}
QUERIES = {  # title; field=value
    "demo": "Crash when I paste a picture; component=composer | Mail lost; description=It spins; created_at=2023-05-01"
    " | Search misses accented names; component=search; version=3.2 | Sound is played for every message; priority=P3"
    " | Meeting one hour late; created_at=2024-06-30T12:00:00+00:00 | ; description=segfault in larkpost::view::SvgJob"
    " | IMAP folder stays empty; component=imap | zzz qqq xxx | Attachment lost; created_at=2022-03-01 | Dark theme",
    "hadoop": "NameNode fails to start after upgrade; component=namenode | TestDFSShell fails; created_at=2015-01-31"
    " | NullPointerException on shutdown; description=See the log | Negative memory in the web UI; priority=Major"
    " | Typo in documentation | ; description=java.io.IOException: Filesystem closed | Update jackson | zzz qqq xxx"
    " | NodeManager leaks descriptors; created_at=2018-06-01T00:00:00+00:00 | distcp fails; component=tools/distcp",
}
LEFT_OUT = (  # keys that say when, how fast or where a command ran, and not what it computed
    r"(/|/train/)(seconds|reports_per_second)(/\d+)?$",  # durations and speeds
    r"━|, in # s \(search it.*/4$",  # progress bars, and the duration that gedbd.commands.index prints
    r"report\.md/\| [^|]* \| \w+ \| # \| # \|/",  # minutes per epoch
    r"\.md/Made #.* UTC by|/versions\.json/|/best_k_models/",  # dates, versions of packages, absolute paths
)
PRINTED = ("describe", "search", "index", "compare", "export")  # what these print is kept too
SKIPPED = ("log.txt", "tokenizer.json", "vocab.txt", "wandb.json")
NUMBER = r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?"
NEEDS = {name: re.findall(r"\.\./(\w+)/", command) for name, command in COMMANDS.items()}
Numbers = Iterator[tuple[str, Any]]


def digest(array: np.ndarray) -> str:
    """Type, shape, mean and a digest of all bytes."""
    text = array.dtype.kind in "OUS"
    data = json.dumps(array.tolist(), default=str).encode() if text else np.ascontiguousarray(array).tobytes()
    mean = "" if text or not array.size else f" mean {float(array.mean(dtype=np.float64))!r}"
    return f"{array.dtype} {array.shape}{mean} {hashlib.blake2b(data, digest_size=12).hexdigest()}"


def table_numbers(table: pd.DataFrame) -> Numbers:
    """Every cell of the columns in which each cell is a number or empty, and a digest of each other column."""
    for name, column in table.items():
        try:
            yield from [(f"{name}/{row}", float("nan" if cell == "" else cell)) for row, cell in enumerate(column)]
        except (TypeError, ValueError):
            yield f"{name}/text", digest(column.astype(str).to_numpy(dtype=object))


def nested_numbers(value: Any, place: str = "", texts: bool = False) -> Numbers:
    """The numbers and arrays in lists and dictionaries within each other; with ``texts`` their texts too."""
    if isinstance(value, dict | list | tuple):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nested_numbers(item, f"{place}/{name}" if place else str(name), texts)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield place, digest(np.asarray(value))
    elif isinstance(value, bool | int | float):
        yield place, value
    elif texts and isinstance(value, str):
        yield place, value if len(value) <= 80 else digest(np.array([value], dtype=object))


def text_numbers(path: Path) -> Numbers:
    """The numbers of a page or of what was printed, named by the line that they are in; JSON lines with their texts."""
    met: Counter[str] = Counter()
    for row, line in enumerate(path.read_text().splitlines()):
        if line.startswith("{"):
            yield from nested_numbers(json.loads(line), str(row), texts=True)
            continue
        name = re.sub(NUMBER, "#", " ".join(line.split()))
        for number in re.findall(NUMBER, line):
            yield f"{name}/{met[name]}", number
            met[name] += 1


READERS: dict[str, Callable[[Path], Numbers]] = {
    ".csv": lambda path: table_numbers(pd.read_csv(path, dtype=str, keep_default_na=False)),
    ".parquet": lambda path: table_numbers(pd.read_parquet(path)),
    ".json": lambda path: nested_numbers(json.loads(path.read_text())),
    ".npz": lambda path: nested_numbers(dict(np.load(path))),
    ".ckpt": lambda path: nested_numbers(torch.load(path, map_location="cpu", weights_only=True)),
    ".safetensors": lambda path: nested_numbers(load_file(path)),
    ".onnx": lambda path: nested_numbers({w.name: to_array(w) for w in onnx.load(path).graph.initializer}),
    **dict.fromkeys((".md", ".txt"), text_numbers),
    **dict.fromkeys((".run", ".qrels"), lambda path: nested_numbers({"lines": np.array([*path.open()])})),
}


def read_numbers(work: Path, names: list[str]) -> dict[str, Any]:
    """All numbers in the folders of these commands."""
    numbers: dict[str, Any] = {}
    for path in (path for name in names for path in sorted((work / name).rglob("*"))):
        place = path.relative_to(work).as_posix()
        if path.suffix in READERS and path.name not in SKIPPED and "/." not in place:
            numbers |= {f"{place}/{key}": value for key, value in READERS[path.suffix](path)}
    return {key: value for key, value in numbers.items() if not any(re.search(left, key) for left in LEFT_OUT)}


def run_command(name: str, out: Path, repo: Path, corpus: str, waits: list[Future[None]]) -> None:
    """Runs one command when those it needs have ended."""
    _ = [other.result() for other in waits]
    started, folder = time.perf_counter(), out / "work" / name
    folder.mkdir(parents=True)
    command_name, *options = shlex.split(COMMANDS[name].format(corpus=shlex.quote(corpus), queries=out))
    if command_name in ("train", "baseline", "backtest"):
        options += ["hydra.run.dir=run", "hydra.sweep.dir=sweep"]
    command = [sys.executable, "-m", "gedbd", command_name, *options]
    own = {"PYTHONPATH": str(repo), "GEDBD_CACHE": str(folder / ".cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True)
    (folder / ("printed.txt" if command_name in PRINTED else "log.txt")).write_text(done.stdout)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {shlex.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


def record(out: Path, repo: Path, corpus: str, only: list[str], jobs: int) -> int:
    """Runs the commands asked for, and those they need, and writes their numbers; those that failed are told last."""
    asked = {name for name in COMMANDS if {name, name.split("_")[0]} & set(only)}
    for name in reversed(COMMANDS):
        asked |= set(NEEDS[name]) if name in asked else set()
    out.mkdir(parents=True)
    for group, lines in QUERIES.items():
        queries = [dict(part.split("=", 1) for part in f"title={line}".split("; ")) for line in lines.split(" | ")]
        (out / f"{group}.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    runs: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(jobs) as pool:  # first come, first served: what a command needs has started before it
        for name in (name for name in COMMANDS if name in asked):
            runs[name] = pool.submit(run_command, name, out, repo, corpus, [runs[other] for other in NEEDS[name]])
    numbers = read_numbers(out / "work", [name for name in runs if not runs[name].exception()])
    (out / "numbers.json").write_text(json.dumps(numbers, indent=0) + "\n")
    for name, count in Counter(key.split("/")[0] for key in numbers).items():
        print(f"{name}: {count:,} numbers")
    failed = [str(run.exception()) for run in runs.values() if run.exception()]
    print(f"{len(numbers):,} numbers: {out / 'numbers.json'}", *failed, sep="\n")
    return 1 if failed else 0


def compare(first: dict[str, Any], second: dict[str, Any]) -> int:
    """Tells which numbers differ: how many for each command, and the first 20 of them."""
    found = {key: f"{first[key]} | {second.get(key, 'gone')}" for key in first if first[key] != second.get(key)}
    added = {key: f"new | {second[key]}" for key in second if key not in first}
    for command in dict.fromkeys(key.split("/")[0] for key in [*found, *added]):
        lines = [f"{key}: {values}" for key, values in (found | added).items() if key.startswith(f"{command}/")]
        print(*lines[:20], f"{command}: {len(lines):,} differ", sep="\n")
    print(f"{len(first):,} and {len(second):,} numbers: {len(first) - len(found):,} equal, {len(found | added):,} not")
    return 1 if found or added else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subcommands = parser.add_subparsers(dest="subcommand", required=True)
    recording, comparing = subcommands.add_parser("record"), subcommands.add_parser("compare")
    recording.add_argument("out", type=Path, help="a new folder")
    recording.add_argument("--repo", type=Path, default=Path(__file__).parents[1], help="the checkout to run")
    recording.add_argument("--corpus", type=Path, default=Path("hadoop.csv.xz"), help="a file that dataset=csv reads")
    recording.add_argument("--only", nargs="+", default=["demo", "hadoop"], choices=["demo", "hadoop", *COMMANDS])
    recording.add_argument("--jobs", type=int, default=2, help="commands side by side")
    comparing.add_argument("numbers", type=Path, nargs=2)
    comparing.add_argument("--renamed", type=Path)
    given = parser.parse_args()
    if given.subcommand == "record":
        return record(given.out.resolve(), given.repo.resolve(), str(given.corpus.resolve()), given.only, given.jobs)
    read = partial(json.loads, parse_float=str, parse_int="{}.0".format, parse_constant=str)  # 1 is 1.0, NaN is NaN
    first, second = (read(path.read_text()) for path in given.numbers)
    for rule in csv.DictReader(given.renamed.read_text().splitlines() if given.renamed else []):
        first = {re.sub(rule["old"], rule["new"], key): value for key, value in first.items()}
    return compare(first, second)


if __name__ == "__main__":
    sys.exit(main())
