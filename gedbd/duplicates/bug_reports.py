"""The reports that a detector learns from: splits, pairs, batches of distinct reports, and the graph over all."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from gedbd.configuration.command_words import quoted_text
from gedbd.configuration.encoder_options import encoder_word
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import TRAIN, Corpus
from gedbd.corpora.templates import Text
from gedbd.duplicates.graph.title_graph import TAGS, SharedIdentifiers, TitleGraph, build_graph, senders
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.prepare import PreparedData, prepare_corpus
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.experiments.training_task import batch_loader, name_reports, process_of
from gedbd.io.files import CONF_DIR
from gedbd.losses import StepLabels
from gedbd.sampling.batches import NO_LABEL, NO_PAIRS, Batches, BatchIndices, SamplerInputs
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gedbd.encoders.node2vec import TagEncoder

STRONGEST_EDGES = 10  # of each report, in ``BugReports.graph`` of a dense graph

logger = logging.getLogger(__name__)


class Batch(NamedTuple):
    """U distinct reports and the P pairs between them.

    ``n_id (U,)`` rows of the corpus, ``input_ids`` and ``attention_mask (U, L)``, ``group (U,)`` the
    groups that training observes, ``edge_label_index (2, P)`` pairs renumbered to 0..U-1, ``edge_label (P,)`` 1 for a
    duplicate pair, 0 for another.
    """

    n_id: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor

    @property
    def labels(self) -> StepLabels:
        """The labels, as losses read them."""
        return StepLabels(self.group, self.edge_label_index, self.edge_label)


@dataclass(eq=False)
class BatchDataset(Dataset[Batch]):
    """A data set whose keys are the indices of whole batches."""

    tokens: TokenTable
    group: np.ndarray

    def __getitem__(self, indices: BatchIndices) -> Batch:
        """The batch of some rows."""
        input_ids, attention_mask = self.tokens.batch(indices.rows)
        return Batch(
            n_id=torch.from_numpy(indices.rows),
            input_ids=input_ids,
            attention_mask=attention_mask,
            group=torch.from_numpy(self.group[indices.rows]),
            # Rows are sorted, so a row's position among them is its new number: rows 4, 7, 9; pair (4, 9) -> (0, 2).
            edge_label_index=torch.from_numpy(np.searchsorted(indices.rows, indices.pairs.T)),
            edge_label=torch.from_numpy(indices.label),
        )


class BugReports(RetrievalDataModule):
    """Reports, pairs for training, reports for evaluation, and the graph over all reports.

    A training batch is drawn from the pairs of the training set; it contains each of their reports once, however many
    pairs name it. The order of an epoch depends on the seed and the epoch alone. Evaluation batches hold no pairs:
    every report is encoded once, with others of similar length, and pairs are scored afterwards.

    Args:
        reports: A file or folder that ``dataset=auto`` recognises, the name of a file in ``conf/dataset``, such as
            ``demo``, a corpus of ``gedbd.load_corpus``, or a corpus that is split already.
        encoder: Its tokenizer reads the texts, and it encodes the titles for the graph: a name in ``conf/encoder``, or
            a loaded encoder; None for that of the model that is trained on the data.
        split: A name in ``conf/split``; the same for the next three, each in its group.
        pairs: How pairs and batches are drawn.
        graph: The rule of the edges; ``none`` for no graph.
        text: How a report is written.
        pca_dim: Dimensions of the title vectors that the graph compares; None for the default of ``graph``.
        batch_size: Pairs in a batch, or reports with ``pairs="grouped"``; None for the default of ``pairs``.
        seed: Of the pairs and of the order of batches.
        evaluated: Splits that a test scores; the last one is reported.
        options: The composed options of ``gedbd train``, instead of the names above.
        batches: Draws batches, instead of those of ``pairs``.
        warn: Takes each warning, a sentence for the user.

    Attributes:
        corpus: N reports, in the order of their creation. Like the next four, it is there after ``setup``.
        parts: ``(N,)`` split of each report: 0 train, 1 val, 2 test.
        pairs: The pairs of all splits: ``earlier`` and ``later`` (rows of the corpus), ``label``, ``kind``, ``part``.
        observed_group: ``(N,)`` groups that training may see.
        queries: Ranking tasks by split and protocol.
        frozen: Rows and unit vectors of the reports that the untrained encoder has encoded, if any.
        vectors: ``(N, D)`` unit text vectors as last encoded, if ``batches`` draws hard negatives.
        model: The model that trains on the reports, or did so last; None before.

    Example:
        >>> from gedbd import BugReports
        >>> data = BugReports("demo", encoder="tiny", graph="knn")
        >>> data.setup()
        >>> list(data.pairs.columns)
        ['earlier', 'later', 'label', 'kind', 'part']
        >>> data.parts.shape
        (425,)
    """

    corpus: Corpus
    observed_group: np.ndarray

    def __init__(
        self,
        reports: str | Path | Corpus | PreparedData,
        encoder: str | LoadedEncoder | None = None,
        *,
        split: str = "time",
        pairs: str = "sampled",
        graph: str = "dense",
        text: str = "title_description",
        pca_dim: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        evaluated: tuple[str, ...] = ("val", "test"),
        options: DictConfig | None = None,
        batches: Batches | None = None,
        warn: Callable[[str], object] = logger.warning,
    ) -> None:
        super().__init__(evaluated)
        self.warn = warn
        self.frozen: tuple[np.ndarray, np.ndarray] | None = None
        self.vectors: np.ndarray | None = None
        self.model: Any = None
        self._encoder = encoder
        self._source: str | Path | Corpus | None = None
        if isinstance(reports, PreparedData):
            self._take(reports)
        else:
            self._source = reports
        if batches is not None:
            self.batches = batches
        self._words = [f"split={split}", f"pairs={pairs}", f"graph={graph}", f"text={text}", f"seed={seed}"]
        self._words += [] if pca_dim is None else [f"graph.pca_dim={pca_dim}"]
        self._words += [] if batch_size is None else [f"batch_size={batch_size}"]
        if options is not None:
            self.options = options
        elif isinstance(reports, str | Path):
            self._words += _dataset_words(str(reports))
            names = ("split", "pairs", "graph", "text", "pca_dim", "batch_size", "seed")
            self.save_hyperparameters(*names, logger=False)

    @cached_property
    def options(self) -> DictConfig:
        """The options of ``gedbd train`` that the names stand for."""
        if isinstance(self._encoder, str):
            self._words.append(encoder_word(self._encoder))
        return compose_options("train", self._words)

    def prepare_data(self) -> None:
        """Reads the reports in one process, which leaves them in the cache for the others."""
        if isinstance(self._source, str | Path):
            read_corpus(self.options.dataset, self.options.cache_dir)

    def setup(self, stage: str | None = None) -> None:
        """Reads the reports, splits them and samples pairs, once. Tokens and graph follow when they are first used.

        Raises:
            ValueError: If the reports cannot be read, or a split has no duplicates.
        """
        if self._source is None:
            return
        corpus = self._source
        if not isinstance(corpus, Corpus):
            corpus = read_corpus(self.options.dataset, self.options.cache_dir)
        prepared = prepare_corpus(self.options, corpus)
        for warning in prepared.warnings:
            self.warn(f"{corpus.name}: {warning}")
        self._source = None
        self._take(prepared)

    def _take(self, prepared: PreparedData) -> None:
        self.hold(prepared.pairs, prepared.corpus.group, prepared.parts, prepared.queries)
        self.corpus = prepared.corpus
        self.observed_group = prepared.observed_group

    @cached_property
    def encoder(self) -> LoadedEncoder:
        """The encoder whose tokenizer reads the texts."""
        if isinstance(self._encoder, LoadedEncoder):
            return self._encoder
        if isinstance(self._encoder, str):
            loaded: LoadedEncoder = instantiate(self.options.encoder, cache_dir=self.options.cache_dir)
            return loaded
        if self.model is None:
            raise ValueError("no model is trained on these reports yet: give them an encoder, such as encoder='minilm'")
        untrained: LoadedEncoder = self.model.untrained_encoder()
        return untrained

    @cached_property
    def batches(self) -> Batches:
        """Draws the training batches."""
        batches: Batches = instantiate(self.options.batches)
        return batches

    @cached_property
    def texts(self) -> list[str]:
        """The texts of the N reports."""
        text: Text = instantiate(self.options.text)
        texts, warnings = text(self.corpus.reports, self.encoder.tokenizer, self.encoder.text_tokens)
        for warning in warnings:
            self.warn(f"{self.corpus.name}: {warning}")
        return texts

    @cached_property
    def tokens(self) -> TokenTable:
        """The texts as token ids."""
        return self.encoder.tokenize(self.texts, self.options.cache_dir)

    @cached_property
    def title_graph(self) -> TitleGraph | None:
        """The graph with data for figures; None without a rule."""
        if self.options.graph.rule is None:
            return None
        return _title_graph(self.options, self.corpus, self.parts == TRAIN, self.encoder, self.warn)

    @property
    def adjacency(self) -> nn.Module | None:
        """The graph as an operator, see ``gedbd.duplicates.graph.adjacency``; None without a graph."""
        return self.title_graph.adjacency if self.title_graph else None

    @property
    def graph(self) -> "Data":
        """The graph over all N reports as PyG's ``Data``.

        ``y (N,)`` groups and ``part (N,)`` splits. ``edge_index (2, E)`` source and target, and ``edge_weight (E,)``
        of D^-1/2 (A + I) D^-1/2, by which messages are multiplied. A dense graph has an edge between every two
        reports: ``edge_index`` holds the ``STRONGEST_EDGES`` into each report, and the factors ``receive (N, r)`` and
        ``send (N, r)`` hold all: ``receive @ send.T`` is the whole matrix (with ``graph.scope=train``, later reports
        also keep themselves). Without a graph there are no edges.
        """
        from torch_geometric.data import Data

        data = Data(y=torch.from_numpy(self.corpus.group), part=torch.from_numpy(self.parts))
        data.num_nodes = len(self.corpus)
        adjacency: Any = self.adjacency
        if adjacency is None:
            data.edge_index = torch.empty((2, 0), dtype=torch.long)
            return data
        data.edge_index, data.edge_weight = adjacency.edges(STRONGEST_EDGES)
        if hasattr(adjacency, "send"):
            data.receive = adjacency.receive
            data.send = adjacency.send
        return data

    def pair_table(self) -> pd.DataFrame:
        """All pairs with ids and titles, for inspection."""
        return name_reports(self.pairs, self.corpus, "earlier", "later")

    def edge_table(self, rows: Sequence[int] | np.ndarray, top_k: int = 5) -> pd.DataFrame:
        """The strongest edges into some reports, with their weight before normalisation, ids and titles."""
        if self.adjacency is None:
            raise ValueError("there is no graph: choose graph=dense, knn or threshold")
        index, weight = self.adjacency.neighbours(torch.as_tensor(rows), top_k)  # type: ignore[operator]
        target = np.repeat(rows, index.shape[1])
        edges = pd.DataFrame({"to": target, "from": index.flatten().numpy(), "weight": weight.flatten().numpy()})
        return name_reports(edges[edges["weight"] > 0], self.corpus, "to", "from")

    def read_for(self, model: Any) -> None:
        """Reads the reports with the encoder of a ``DuplicateDetector``, unless they have one of their own.

        Raises:
            ValueError: If the tokenizer of their own encoder is not that of the model.
        """
        if self.model is not None and self._encoder is None:
            for name in ("encoder", "texts", "tokens", "title_graph"):  # made with the encoder of another model
                self.__dict__.pop(name, None)
        self.model = model
        if self.encoder.tokenizer.get_vocab() != model.loaded_encoder.tokenizer.get_vocab():
            raise ValueError("BugReports(encoder=...) has another tokenizer than the model: leave encoder out")

    def remember(self, n_id: np.ndarray, z: np.ndarray) -> None:
        """Stores reports' unit vectors, ``(U,), (U, D)``, from which the next epoch draws hard negatives."""
        if self.batches.hard:
            if self.vectors is None:
                self.vectors = np.zeros((len(self.corpus), z.shape[1]), dtype=np.float32)
            self.vectors[n_id] = z

    def state_dict(self) -> dict[str, Any]:
        """The vectors, so that a resumed run samples what an uninterrupted one does."""
        return {} if self.vectors is None else {"vectors": torch.from_numpy(self.vectors)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the vectors of the run that is resumed."""
        self.remember(np.arange(len(self.corpus)), state_dict["vectors"].numpy())

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of the training pairs; each of several processes gets its share of every batch."""
        vectors = self.vectors
        if self.batches.reads_untrained and self.frozen is not None:
            _, vectors = self.frozen  # of all reports
        tracker = self.corpus.documents.first_of_tracker
        inputs = SamplerInputs(self.pairs_of("train"), self.observed_group, self.parts == TRAIN, vectors, tracker)
        max_tokens = self.options.get("train_tokens")  # runs of earlier versions have no such option
        tokens = self.tokens if max_tokens is None else self.tokens.truncated(max_tokens)
        batches = self.batches(inputs, *process_of(self))
        return batch_loader(self, BatchDataset(tokens, self.observed_group), batches)

    def needed(self, *parts: str) -> np.ndarray:
        """Rows that the evaluation of some splits encodes.

        They are the reports of their pairs, and the queries of the last split, which is ranked, with their candidates.
        """
        needed = [self.paired_rows(*parts)]
        needed += [queries.needed for queries in self.queries.get(parts[-1], {}).values()]
        return np.unique(np.concatenate(needed))

    def load_rows(self, *parts: str) -> DataLoader[Batch]:
        """Batches of reports of similar length.

        Each of several processes gets equally many reports, some repeated if necessary, in equally many batches: where
        weights are sharded, all processes take part in encoding a batch.
        """
        rows = self.needed(*parts)
        rows = rows[np.argsort(self.tokens.lengths[rows], kind="stable")]
        shares = self.shares(rows)
        longest = self.tokens.lengths[shares].max(axis=1)
        device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
        runs = split_by_tokens(longest.tolist(), token_budget(device))
        rank, _ = process_of(self)
        batch_indices = [BatchIndices(shares[first:last, rank], NO_PAIRS, NO_LABEL) for first, last in runs]
        return batch_loader(self, BatchDataset(self.tokens, self.observed_group), batch_indices)


def _dataset_words(reports: str) -> list[str]:
    """The options of ``dataset`` for a path, or for the name of a file in ``conf/dataset``."""
    is_name = reports.isidentifier() and not Path(reports).exists()
    if is_name and (Path(CONF_DIR) / "dataset" / f"{reports}.yaml").is_file():
        return [f"dataset={reports}"]
    return ["dataset=auto", f"dataset.path={quoted_text(reports)}"]


def _title_graph(
    options: DictConfig, corpus: Corpus, training: np.ndarray, encoder: LoadedEncoder, warn: Callable[[str], object]
) -> TitleGraph:
    """The graph of the section ``graph``; titles are encoded by ``encoder`` or by an encoder of their own."""
    graph = options.graph
    rule = instantiate(graph.rule)
    if isinstance(rule, SharedIdentifiers):
        return rule.graph(corpus, senders(training, graph.scope))
    titles: LoadedEncoder = encoder if graph.titles is None else instantiate(graph.titles)
    tag_encoder: TagEncoder | None = instantiate(options.tags) if TAGS in graph.fields else None
    title_encoder = LoadedEncoder(
        titles.model, titles.tokenizer, graph.max_title_tokens, encoder.backend, encoder.cache_dir, titles.prefix
    )
    title_graph = build_graph(
        corpus, training, title_encoder, rule, graph.scope, graph.pca_dim, graph.fields, graph.field_weight, tag_encoder
    )
    for warning in tag_encoder.warnings_ if tag_encoder else ():
        warn(f"{corpus.name}: {warning}")
    return title_graph
