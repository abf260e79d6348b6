"""The probes: what is measured of one encoder, and of the baselines without one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gedbd.code.flow_graph import FlowGraph
from gedbd.code.parse import find_method_graph
from gedbd.io.console import track
from gedbd.tasks.code_probe.data import ProbeData, SampleSizes
from gedbd.tasks.code_probe.encoding import ProbedEncoder
from gedbd.tasks.code_probe.fine_tuning import FineTuning, fine_tune
from gedbd.tasks.code_probe.linear import Examples, fit_probe
from gedbd.tasks.code_probe.measures import Metric, accuracy, average_precision, macro_f1, mean, reciprocal_ranks
from gedbd.tasks.code_probe.queries import SearchSample, bm25_scores
from gedbd.tasks.code_probe.variables import Variables

WITH_GRAPH = "_with_graph"
LABELS = ("type", "role")


class Measured(NamedTuple):
    """One measure of one method.

    Attributes:
        method: Whose: a method of ``task.runs``, or a baseline.
        measure: Such as ``role_accuracy``.
        metric: Its value in samples of the methods of the test part.
        rows: ``(M,)`` rows of these methods in the corpus.
        validation: The accuracy on validation of the probe; NaN for measures of search.
    """

    method: str
    measure: str
    metric: Metric
    rows: np.ndarray
    validation: float = float("nan")


def probe_encoder(
    method: str, encoder: ProbedEncoder, data: ProbeData, sizes: SampleSizes, tuning: FineTuning, seed: int
) -> list[Measured]:
    """All measures of an encoder.

    Args:
        method: Its name; what it finds when it reads methods with their flow graphs is named with ``_with_graph``.
        encoder: The encoder.
        data: What is read.
        sizes: How many pairs are read.
        tuning: How it is fine-tuned for search.
        seed: Determines the draw of pairs and fine-tuning.
    """
    parts = [
        encoder.variable_vectors(part.codes, part.method, part.spans, f"{method}: encode variables")
        for part in data.parts
    ]
    found = _labels(method, parts, data)
    features = [_pair_features(part, vectors) for part, vectors in zip(data.parts, parts, strict=True)]
    found += _flows(method, features, data, sizes, seed)
    if data.search is None or data.tuning is None:
        return found
    for with_graph in (False, True) if encoder.reads_graphs else (False,):
        name = f"{method}{WITH_GRAPH}" if with_graph else method
        found += _search(name, "zero_shot", encoder, data.search, with_graph)
        if tuning.steps:
            tuned = _fine_tuned(encoder, data.tuning, with_graph, tuning, seed)
            found += _search(name, "search", tuned, data.search, with_graph)
    return found


def probe_baselines(data: ProbeData, sizes: SampleSizes, seed: int) -> list[Measured]:
    """All measures of the methods that read no vectors.

    They are ``majority``, the most frequent class of the training part; ``identifier``, logistic regression on the
    characters of the variable's name; ``name_and_distance``, the same on what ``Pairs.surface`` has; and ``bm25``.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    found: list[Measured] = []
    for name in LABELS:
        train, val, test = (_classes(part, name) for part in data.parts)
        values, counts = np.unique(train, return_counts=True)
        constant = values[counts.argmax()]
        share = float((val == constant).mean())
        found += _classified("majority", name, np.full(len(test), constant), data.test, share)
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(1, 3), lowercase=False, max_features=5000, binary=True)
    train_names = counter.fit_transform(data.train.names).astype(np.float32)
    names = [train_names, *(counter.transform(part.names).astype(np.float32) for part in data.parts[1:])]
    found += _labels("identifier", names, data)
    surface = [part.pairs.surface for part in data.parts]
    found += _flows("name_and_distance", surface, data, sizes, seed)
    if data.search is not None:
        for suffix, codes in (("", data.search.codes), ("_hidden_name", data.search.hidden)):
            ranks = reciprocal_ranks(bm25_scores(data.search.queries, codes))
            found += [_ranked("bm25", f"{kind}_mrr{suffix}", ranks, data.search) for kind in ("zero_shot", "search")]
    return found


def _labels(method: str, features: Sequence[Any], data: ProbeData) -> list[Measured]:
    """Probes of types and of roles, of features ``(V, F)`` of each part."""
    found: list[Measured] = []
    for name in LABELS:
        train, val = (Examples(features[place], _classes(data.parts[place], name)) for place in (0, 1))
        probe = fit_probe(train, val)
        found += _classified(method, name, probe.predict(features[2]), data.test, probe.accuracy)
    return found


def _classified(method: str, name: str, predicted: np.ndarray, test: Variables, validation: float) -> list[Measured]:
    rows = (predicted, _classes(test, name), test.method, len(test.codes))
    return [
        Measured(method, f"{name}_accuracy", accuracy(*rows), test.rows, validation),
        Measured(method, f"{name}_macro_f1", macro_f1(*rows), test.rows),
    ]


def _classes(variables: Variables, name: str) -> np.ndarray:
    return variables.types if name == "type" else variables.roles


def _pair_features(variables: Variables, vectors: np.ndarray) -> np.ndarray:
    """Both vectors, their product and their absolute difference, ``(P, 4H)``."""
    first, second = vectors[variables.pairs.ends]
    return np.concatenate([first, second, first * second, np.abs(first - second)], axis=1)


def _flows(
    method: str, features: Sequence[np.ndarray], data: ProbeData, sizes: SampleSizes, seed: int
) -> list[Measured]:
    """The probe of the flow of data, of features ``(P, F)`` of the pairs of each part."""
    limits = (sizes.train_pairs, max(sizes.train_pairs // 4, 1), sizes.test_pairs)
    rows = [_drawn(len(part.pairs.label), limit, seed) for part, limit in zip(data.parts, limits, strict=True)]
    train, val = (Examples(features[part][rows[part]], data.parts[part].pairs.label[rows[part]]) for part in (0, 1))
    probe = fit_probe(train, val)
    x = features[2][rows[2]]
    label = data.test.pairs.label[rows[2]]
    of_method = data.test.method[data.test.pairs.ends[0, rows[2]]]
    right = accuracy(probe.predict(x), label, of_method, len(data.test.codes))
    precision = average_precision(probe.scores(x), label, of_method)
    return [
        Measured(method, "flow_accuracy", right, data.test.rows, probe.accuracy),
        Measured(method, "flow_average_precision", precision, data.test.rows),
    ]


def _drawn(count: int, limit: int, seed: int) -> np.ndarray:
    """At most ``limit`` of ``count`` rows, in order."""
    rows = np.random.default_rng(seed).permutation(count)[:limit]
    return np.sort(rows)


def _search(method: str, kind: str, encoder: ProbedEncoder, sample: SearchSample, with_graph: bool) -> list[Measured]:
    """Mean reciprocal rank of each query's method among the methods of all queries, by cosine."""
    found = []
    queries = _unit(encoder.vectors([encoder.query_input(query) for query in sample.queries], "comment", "queries"))
    for suffix, codes in (("", sample.codes), ("_hidden_name", sample.hidden)):
        graphs = read_graphs(codes, with_graph)
        inputs = [encoder.code_input(code, graph) for code, graph in zip(codes, graphs, strict=True)]
        methods = _unit(encoder.vectors(inputs, "code", f"{method}: encode methods"))
        found.append(_ranked(method, f"{kind}_mrr{suffix}", reciprocal_ranks(queries @ methods.T), sample))
    return found


def _fine_tuned(
    encoder: ProbedEncoder, sample: SearchSample, with_graph: bool, tuning: FineTuning, seed: int
) -> ProbedEncoder:
    """The encoder after training on queries; every second method is read without its name."""
    pairs = zip(sample.codes, sample.hidden, strict=True)
    codes = [hidden if number % 2 else code for number, (code, hidden) in enumerate(pairs)]
    return fine_tune(encoder, sample.queries, codes, read_graphs(codes, with_graph), tuning, seed)


def read_graphs(codes: Sequence[str], wanted: bool) -> list[FlowGraph | None]:
    """The flow graphs of methods; None for those that have none, and for each if they are not wanted."""
    if not wanted:
        return [None] * len(codes)
    return [find_method_graph(code) for code in track(codes, "parse methods", transient=True)]


def _ranked(method: str, measure: str, ranks: np.ndarray, sample: SearchSample) -> Measured:
    return Measured(method, measure, mean(ranks, np.arange(len(ranks)), len(ranks)), sample.rows)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
