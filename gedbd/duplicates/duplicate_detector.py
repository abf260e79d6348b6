"""The model of duplicate detection and its training: text branch, graph branch, fusion and loss."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor, nn

from gedbd.configuration.allowed_targets import check_options, keep_local
from gedbd.configuration.encoder_options import encoder_word
from gedbd.configuration.options import compose_options
from gedbd.corpora.corpus import TRAIN
from gedbd.duplicates.bug_reports import Batch, BugReports
from gedbd.duplicates.graph.gcn import GraphBranch, TextOnly
from gedbd.encoders.adapters import add_adapters
from gedbd.encoders.backend import Backend
from gedbd.encoders.encoder_weights import read_tensors
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.experiments.distributed import gather, shard
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler, optimization
from gedbd.experiments.retrieval_module import Embedded, EncodedRows, EpochRows, RetrievalModule, distinct
from gedbd.experiments.training_task import fix_dropout, show_loss
from gedbd.losses import Loss, check_labels, loss_of_pairs

Section = Mapping[str, Any]  # a section of the composed options, with its ``_target_``
PARTS = ("encoder", "fusion", "loss", "optimizer", "scheduler")
NODE_ROWS = "branch.node_features.x"  # in a checkpoint, if there is a graph


class DuplicateDetector(RetrievalModule[BugReports]):
    """Trains the encoder, with or without the graph; chooses the threshold on validation pairs; scores test pairs.

    In evaluation all reports are encoded first. Their vectors then replace their node features all at once, so scores
    depend neither on the batch size nor on the number of devices, and nothing is written.

    ``load_from_checkpoint(path)`` needs no other argument, unless one was given as an object.

    Args:
        encoder: The text branch: a name in ``conf/encoder``, a folder or a name on the Hugging Face hub, a section of
            options, or a loaded encoder.
        lambda_text: Weight of the text branch in the fusion, 0 to 1; None for the default of ``fusion``.
        margin: Of the loss; None, here and in the next two, for the default of the encoder.
        dim: Size D of the projected vectors.
        lr: Learning rate of the encoder's pretrained weights.
        fusion: Combines both branches into unit vectors: a name in ``conf/fusion``, a section or a module.
        loss: A name in ``conf/loss``, a section or a module, see ``gedbd.losses``.
        optimizer: A name in ``conf/optimizer``, a section, or a function of two lists: pretrained and new parameters.
        scheduler: A name in ``conf/scheduler``, a section or a function.
        features: The rows of the graph, see ``gedbd.duplicates.graph.gcn.NodeFeatures``.
        dropout: Before each layer of the graph convolution.
        bias: Whether each of these layers adds a bias.
        adapter_rank: Rank of low-rank adapters of the backbone, which are trained instead of its weights and of the
            projection, see ``gedbd.encoders.adapters``; None trains all weights.
        seed: Fixes dropout, and the initial weights of graph branch and adapters.
        lock_threshold: See ``locks_threshold`` of ``RetrievalModule``.
        backend: Encodes before the training, by default PyTorch.
        cache_dir: Folder of cached vectors; None for no cache.

    Attributes:
        loaded_encoder: The text branch with its tokenizer.
        branch: The graph branch, made when the graph is known; None without a graph.

    Raises:
        ValueError: If a name is unknown, or an option does not apply.

    Example:
        >>> from gedbd import DuplicateDetector
        >>> model = DuplicateDetector("tiny", lambda_text=0.7, margin=0.3, lr=1e-3)
        >>> model.encode(["Crash on paste", "Printing is slow"]).shape
        (2, 16)
    """

    branch: GraphBranch | None

    def __init__(
        self,
        encoder: str | Section | LoadedEncoder = "minilm",
        lambda_text: float | None = None,
        margin: float | None = None,
        dim: int | None = None,
        lr: float | None = None,
        *,
        fusion: str | Section | nn.Module = "weighted_sum",
        loss: str | Section | Loss = "cosine_embedding",
        optimizer: str | Section | MakeOptimizer = "adamw",
        scheduler: str | Section | MakeScheduler = "constant",
        features: str = "text",
        dropout: float = 0.0,
        bias: bool = True,
        adapter_rank: int | None = None,
        seed: int = 0,
        lock_threshold: bool = False,
        backend: Backend | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        options = {"encoder.dim": dim, "fusion.lambda_text": lambda_text, "loss.margin": margin, "optimizer.lr": lr}
        given = {"encoder": encoder, "fusion": fusion, "loss": loss, "optimizer": optimizer, "scheduler": scheduler}
        parts = _sections(given, {name: value for name, value in options.items() if value is not None})
        # Modules draw their initial weights from one random generator: the order of these lines fixes the numbers.
        fusion_module: nn.Module = _instance(parts["fusion"])
        loss_module: Loss = _instance(parts["loss"])
        loaded_encoder: LoadedEncoder = _instance(parts["encoder"], backend=backend, cache_dir=cache_dir)
        super().__init__(partial(loss_of_pairs, loss_module), seed)
        self.graph_options: dict[str, Any] = {"features": features, "dropout": dropout, "bias": bias}
        saved: dict[str, Any] = {name: part for name, part in parts.items() if isinstance(part, Mapping)}
        saved |= {**self.graph_options, "seed": seed, "lock_threshold": lock_threshold, "adapter_rank": adapter_rank}
        self.save_hyperparameters(saved, logger=False)
        # The order of the modules is that of their weights, and so of the sum that is the gradient's norm.
        self.loss = loss_module
        self.loaded_encoder = loaded_encoder
        self.encoder = loaded_encoder.model
        self.register_module("branch", None)
        self.fusion = fusion_module
        self.make_optimizer: MakeOptimizer = _instance(parts["optimizer"])
        self.make_scheduler: MakeScheduler = _instance(parts["scheduler"])
        self.locks_threshold = lock_threshold
        self.adapter_rank = adapter_rank
        self.is_adapted = False
        self.train_pairs = EpochRows("scores", "labels")
        self.text_vectors = EncodedRows(latest=True)  # unit vectors of the epoch, for hard negatives
        self.train()  # pretrained encoders come in evaluation mode, and Lightning does not change modes

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *arguments: Any, **options: Any) -> "DuplicateDetector":
        """Loads a trained model; see ``LightningModule.load_from_checkpoint``.

        Raises:
            ValueError: If a part that was an object is not given, or the checkpoint names code or a model that a file
                may not name.
        """
        content = read_tensors(checkpoint_path, mmap=True)
        saved: dict[str, Any] = content.get(cls.CHECKPOINT_HYPER_PARAMS_KEY, {})
        missing = [name for name in PARTS if name not in saved and name not in options]
        if missing:
            raise ValueError(
                f"{checkpoint_path} was trained with objects: load_from_checkpoint(path, {missing[0]}=...)"
            )
        check_options(saved, str(checkpoint_path))
        keep_local(saved, str(checkpoint_path))
        arguments_by_name: dict[str, Any] = {"weights_only": True, **saved, **options}
        load: Any = super().load_from_checkpoint
        model: DuplicateDetector = load(checkpoint_path, *arguments, **arguments_by_name)
        model.loaded_encoder.is_trained = True
        return model.eval()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Makes the graph branch of a checkpoint, whose graph comes with the data."""
        super().on_load_checkpoint(checkpoint)
        rows = checkpoint.get("state_dict", {}).get(NODE_ROWS)  # without weights if they were sharded
        if self.branch is None and rows is not None:
            self.branch = GraphBranch(None, len(rows), rows.shape[1], **self.graph_options)
        elif self.branch is None:
            self.fusion = TextOnly()
        self.adapt()

    def adapt(self) -> None:
        """Adds the adapters, if any, and freezes all other weights of the text branch, once."""
        if self.adapter_rank is None or self.is_adapted:
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            add_adapters(self.encoder.backbone, self.adapter_rank)
        self.encoder.projection.requires_grad_(False)
        self.is_adapted = True

    def setup(self, stage: str) -> None:
        """Takes the graph of the trainer's data.

        Raises:
            ValueError: If the data are not ``BugReports`` or do not fit, or the trainer would distribute batches again.
        """
        trainer = self.trainer
        if not isinstance(self.data, BugReports):
            raise ValueError("a DuplicateDetector is trained on BugReports: trainer.fit(model, BugReports(...))")
        if trainer.world_size > 1 and trainer._accelerator_connector.use_distributed_sampler:
            raise ValueError("BugReports distributes its batches itself: pl.Trainer(use_distributed_sampler=False)")
        # Lightning seeds anew where several processes train: the branch's initial weights depend on ``seed`` alone.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.connect(self.data)

    def connect(self, data: BugReports) -> None:
        """Makes the graph branch, and encodes reports before the training, see ``encode_untrained``.

        Raises:
            ValueError: If options contradict each other, or a checkpoint or tokenizer does not fit the data.
        """
        if data.model is self:
            return
        data.read_for(self)
        check_training(data, self.loss)
        is_restored = self.branch is not None
        adjacency = data.adjacency if getattr(self.fusion, "uses_graph", True) else None
        if adjacency is None:
            self.branch = None
            self.fusion = TextOnly()
        elif self.branch is None:
            dim = self.encoder.projection.out_features
            self.branch = GraphBranch(adjacency, len(data.corpus), dim, **self.graph_options)
        elif len(self.branch.node_features.x) != len(data.corpus):
            known = len(self.branch.node_features.x)
            raise ValueError(f"the model was trained with {known:,} reports, and these are {len(data.corpus):,}")
        else:
            self.branch.adjacency = adjacency
        self.ranks_text = self.branch is not None
        encode_untrained(data, None if is_restored else self.branch)
        self.adapt()  # only now, so that the cached vectors of the untrained encoder are those without adapters
        assert len(data.tokens.lengths) == len(data.texts)
        del data.texts  # they are long, and encoded

    def on_fit_end(self) -> None:
        """Notes that the encoder is trained."""
        self.loaded_encoder.is_trained = True

    def untrained_encoder(self) -> LoadedEncoder:
        """The encoder before the training, which encodes the titles of the graph."""
        if not self.loaded_encoder.is_trained:
            return self.loaded_encoder
        if "encoder" not in self.hparams:
            raise ValueError("this model is trained: give BugReports the encoder that it was trained from")
        encoder: LoadedEncoder = _instance(self.hparams["encoder"])
        return encoder

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit text vectors of N texts, such as title, newline and description: ``(N, D)`` float32, without a graph."""
        if isinstance(texts, str):
            raise ValueError("texts is a single text: give a list of texts")
        source = self.loaded_encoder
        encoder = LoadedEncoder(self.encoder, source.tokenizer, source.max_tokens, prefix=source.prefix)
        return unit_rows(encoder.project(encoder.pool(list(texts))))

    def configure_model(self) -> None:
        """Distributes the weights over all devices if the strategy shards them (``trainer=fsdp``)."""
        if self.device_mesh is not None:
            shard(self.encoder, self.branch, self.fusion, self.device_mesh["data_parallel"])

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """Unit vectors of distinct reports, ``(U,), (U, D) -> (U, D)``; training stores ``z_text`` as node features."""
        if self.branch is None:
            fused: Tensor = self.fusion(z_text)
            return fused
        if self.trainer.world_size == 1:  # the rows are distinct already
            all_id, all_z = n_id, z_text
            z_graph = self.branch(n_id, z_text)
        else:
            # The batches of all processes enter the graph together; each process keeps its own rows of the result.
            all_id, all_z = distinct(gather(self, n_id), gather(self, z_text))
            z_graph = self.branch(all_id, all_z)[torch.searchsorted(all_id, n_id)]
        if self.training:
            self.branch.node_features.write(all_id, all_z)
        fused = self.fusion(z_text, z_graph)
        return fused

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        fix_dropout(self, self.seed, batch_idx)
        z_text = self.encoder(batch.input_ids, batch.attention_mask)
        z = self(batch.n_id, z_text)
        loss = self.loss(z, batch.labels)
        show_loss(self, loss, batch)
        self.train_loss.update(loss, len(batch.edge_label))
        self.train_pairs.update((z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(-1), batch.edge_label)
        if self.data.batches.hard:
            self.text_vectors.update(batch.n_id, nn.functional.normalize(z_text, dim=-1))
        return loss

    def on_train_epoch_start(self) -> None:
        """Clears the metrics and vectors of the last epoch."""
        super().on_train_epoch_start()
        self.train_pairs.reset()
        self.text_vectors.reset()

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss and its metrics on training pairs, at the threshold that validation just chose.

        Passes all vectors to the data module, which draws hard negatives by them; for a report encoded twice,
        the vector from validation is the newer one.
        """
        if self.data.batches.hard:
            n_id, z = self.text_vectors.compute()
            self.data.remember(n_id.cpu().numpy(), z.cpu().numpy())
        self.log("train/loss", self.train_loss.compute())
        scores, labels = (values.cpu().numpy() for values in self.train_pairs.compute())
        self.log_metrics("train", pairwise_metrics(scores, labels, float(self.threshold)))

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self.encoded.update(batch.n_id, self.encoder(batch.input_ids, batch.attention_mask))

    def validate(self, reports: Embedded) -> None:
        """Scores the validation pairs; the next epoch draws hard negatives by the vectors."""
        super().validate(reports)
        if self.data.batches.hard and self.trainer.state.fn == "fit":
            self.text_vectors.update(reports.n_id, reports.z_text)

    def configure_optimizers(self) -> Any:
        """The optimizer of the backbone's weights and of all others, and its scheduler."""
        pretrained = [parameter for parameter in self.encoder.backbone.parameters() if parameter.requires_grad]
        other_ids = {id(parameter) for parameter in self.parameters() if parameter.requires_grad}
        other_ids -= {id(parameter) for parameter in pretrained}
        untrained = [parameter for parameter in self.parameters() if id(parameter) in other_ids]
        configured = optimization(self, self.make_optimizer, self.make_scheduler, pretrained, untrained)
        # A fused optimizer unscales float16 gradients itself, which is too late: they are clipped before its step.
        configured["optimizer"]._step_supports_amp_scaling = False
        return configured

    def embed(self) -> Embedded:
        """The fused and the text vectors of all encoded reports."""
        n_id, z_text = self.encoded.compute()
        z = self.fusion(z_text, self.branch(n_id, z_text)) if self.branch is not None else self.fusion(z_text)
        return Embedded(n_id, z, nn.functional.normalize(z_text, dim=-1))


def _sections(parts: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces names by the sections of the options that they stand for, with some options set.

    Raises:
        ValueError: If an option belongs to a part that was not given by its name.
    """
    sections = dict(parts)
    names = {name: part for name, part in sections.items() if isinstance(part, str | Path)}
    for option in options:
        section = option.partition(".")[0]
        if section not in names:
            raise ValueError(f"{option} does not apply to an object or section given as {section}=: set it there")
    words = [encoder_word(part) if name == "encoder" else f"{name}={part}" for name, part in names.items()]
    words += [f"{option}={value}" for option, value in options.items()]
    if "encoder" not in names:  # for parts whose size is that of the encoder
        given = sections["encoder"]
        dim = given["dim"] if isinstance(given, Mapping) else given.model.projection.out_features
        words.append(f"encoder.dim={dim}")
    if names:
        cfg = compose_options("train", words)
        sections |= {name: OmegaConf.to_container(cfg[name], resolve=True) for name in names}
    return sections


def _instance(part: Any, **more: Any) -> Any:
    """The object that a section describes; an object is returned as it is."""
    return instantiate(part, **more) if isinstance(part, Mapping) else part


def check_training(data: BugReports, loss: Loss) -> None:
    """Checks options that would otherwise fail in the first batch, or leak test pairs into training.

    Raises:
        ValueError: If options are invalid or contradict each other.
    """
    check_labels(loss, data.batches.provides)
    group_readers = [
        name for name, reads in (("pairs", data.batches.reads_groups), ("loss", "groups" in loss.reads)) if reads
    ]
    # With split=pair all reports are in the training set, and the pairs inside a group are in all splits.
    if group_readers and (data.parts == TRAIN).all() and len(data.pairs_of("val", "test")):
        readers = " and ".join(group_readers)
        raise ValueError(f"{readers} read whole duplicate groups, test pairs too: do not use split=pair")


def encode_untrained(data: BugReports, branch: GraphBranch | None) -> None:
    """Encodes reports with the untrained encoder and stores the vectors where they are needed.

    They are a baseline (``data.frozen`` and the column ``score_frozen`` of the evaluated pairs), the initial node
    features of the graph, and the vectors by which the first epoch draws hard negatives.

    Args:
        data: The data; its evaluated splits are scored.
        branch: The graph branch whose rows are filled, if there is one.
    """
    encoder = data.encoder  # it has a trained projection if it was exported by gedbd
    fills_nodes = branch is not None and not branch.node_features.learnable
    samples_hard = bool(data.batches.hard)
    ranker = data.options.ranking.ranker
    needs_all = ranker or fills_nodes or samples_hard or data.batches.reads_untrained
    rows = np.arange(len(data.corpus)) if needs_all else data.needed(*data.evaluated)
    texts = data.texts
    vectors = encoder.pool([texts[row] for row in rows], tokens=data.tokens.of_rows(rows))
    data.frozen = (rows, unit_rows(encoder.project(vectors) if encoder.is_trained else vectors))
    score_frozen(data.pairs, data.evaluated, *data.frozen)
    if ranker:
        from gedbd.retrieval.report_ranking.report_training import RankerOnTop

        data.on_top = RankerOnTop(data.corpus, data.parts, data.frozen[1])
    if fills_nodes or samples_hard:
        z_text = encoder.project(vectors)
        data.remember(rows, unit_rows(z_text))
    if fills_nodes and branch is not None:
        branch.node_features.write(torch.from_numpy(rows), torch.from_numpy(z_text))


def score_frozen(pairs: pd.DataFrame, parts: tuple[str, ...], rows: np.ndarray, vectors: np.ndarray) -> None:
    """Adds the column ``score_frozen``, the cosines of untrained vectors, to the pairs of some splits.

    Args:
        pairs: Pairs with ``earlier``, ``later`` and ``part``; changed in place.
        parts: The splits to score; the other pairs get NaN.
        rows: ``(U,)`` sorted rows of the corpus that have a vector.
        vectors: ``(U, hidden)`` their unit vectors.
    """
    is_scored = pairs["part"].isin(parts)
    # Row numbers of the corpus become positions among the sorted rows: of rows 4, 7, 9, row 7 is at position 1.
    earlier = np.searchsorted(rows, pairs.loc[is_scored, "earlier"].to_numpy())
    later = np.searchsorted(rows, pairs.loc[is_scored, "later"].to_numpy())
    pairs.loc[is_scored, "score_frozen"] = (vectors[earlier] * vectors[later]).sum(axis=1)
