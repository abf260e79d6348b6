"""What is hidden is hidden, non-edges are none, nothing held out reaches training, and base rates by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gedbd.corpora.corpus import TEST, TRAIN, VAL, Documents
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder, attention_mask
from gedbd.localization.code_encoder.code_inputs import (
    CODE_BLOCK,
    COMMENT_BLOCK,
    NODE_BLOCK,
    ROLE_BLOCK,
    TYPE_BLOCK,
    CodeEdges,
    CodeInput,
    InputLimits,
    InputParts,
    collate,
)
from gedbd.localization.code_encoder.masking import (
    ALIGNMENT,
    EDGE,
    EDGES_OF,
    NONE,
    OBJECTIVES,
    ROLE,
    TYPE,
    EdgePairs,
    Sample,
    Sampler,
    Shares,
    other_nodes,
    other_tokens,
    sample_other_classes,
)
from gedbd.localization.code_encoder.pretraining_data import (
    BatchRows,
    MethodDataset,
    PretrainingDataModule,
    find_vocabulary,
    read_inputs,
)
from gedbd.localization.code_encoder.pretraining_task import base_rates, keys_of, starting_point
from gedbd.localization.readers.java_sources import read_java_sources


@pytest.fixture
def sampler(priors, tokenizer):
    return Sampler(OBJECTIVES, Shares(), priors, find_vocabulary(tokenizer))


@pytest.fixture
def samples(inputs, sampler):
    return [(one, sampler.sample(one, np.random.default_rng(row))) for row, one in enumerate(inputs)]


def pairs_of(edges):
    return set(map(tuple, edges.T.tolist()))


def test_hidden_edges_are_in_no_mask_and_non_edges_are_none_and_as_many(samples):
    blocks = {ALIGNMENT: (CODE_BLOCK, NODE_BLOCK), EDGE: (NODE_BLOCK, NODE_BLOCK)}
    blocks |= {TYPE: (NODE_BLOCK, TYPE_BLOCK), ROLE: (NODE_BLOCK, ROLE_BLOCK)}
    for method, sample in samples:
        allowed = attention_mask(collate([sample.visible]))[0, 0].numpy()
        assert len(np.unique(sample.pairs[TYPE].ends[0])) == max(1, round(0.2 * method.blocks[NODE_BLOCK, 1]))
        for name, field in EDGES_OF.items():
            true = pairs_of(getattr(method.edges, field))
            ends, label = sample.pairs[name]
            edges, others = pairs_of(ends[:, label == 1]), pairs_of(ends[:, label == 0])
            assert edges
            assert edges <= true
            assert not edges & pairs_of(getattr(sample.visible.edges, field))
            assert not any(allowed[pair] or (name in (ALIGNMENT, EDGE) and allowed[pair[::-1]]) for pair in edges)
            if name == EDGE:  # the probability of an edge does not know its direction
                true |= {(end, start) for start, end in true}
            assert not others & true
            assert (label == 1).sum() == (label == 0).sum()
            for end, block in zip(ends, blocks[name], strict=True):
                start, length = method.blocks[block]
                assert ((end >= start) & (end < start + length)).all()


def test_the_mask_does_not_tell_which_token_belongs_to_a_node(samples):
    for method, sample in samples:
        tokens, nodes = method.edges.code_node
        ends, label = sample.pairs[ALIGNMENT]
        hidden = set(tokens[np.isin(nodes, ends[1])].tolist())
        assert set(ends[0, label == 0].tolist()) <= hidden
    visible = [np.isin(one.pairs[ALIGNMENT].ends[0], one.visible.edges.code_node[0]) for _, one in samples]
    label = np.concatenate([one.pairs[ALIGNMENT].label for _, one in samples])
    assert (np.concatenate(visible) != label).mean() == pytest.approx(0.5, abs=0.05)


def test_tokens_to_predict(samples, tokenizer):
    num_masked = num_places = 0
    for method, sample in samples:
        inside = np.zeros(len(method), dtype=bool)
        for first, length in method.blocks[[COMMENT_BLOCK, CODE_BLOCK]]:
            inside[first : first + length] = True
        assert inside[sample.positions].all()
        assert len(sample.positions) == round(0.15 * inside.sum())
        np.testing.assert_array_equal(sample.targets, method.input_ids[sample.positions])
        others = np.setdiff1d(np.arange(len(method)), sample.positions)
        np.testing.assert_array_equal(sample.visible.input_ids[others], method.input_ids[others])
        num_masked += (sample.visible.input_ids[sample.positions] == tokenizer.mask_token_id).sum()
        num_places += len(sample.positions)
    assert num_masked / num_places == pytest.approx(0.8, abs=0.08)


def test_types_are_drawn_by_their_shares_without_the_true_one():
    shares = np.array([0.5, 0.3, 0.2])
    drawn = sample_other_classes(np.zeros(20_000, dtype=int), shares, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=3)[0] == 0
    assert (drawn == 1).mean() == pytest.approx(0.6, abs=0.02)


def test_nodes_are_drawn_at_the_distances_of_edges():
    is_edge = np.zeros((9, 9), dtype=bool)
    is_edge[4, 5] = True
    kept = np.full(2_000, 4)
    distances = np.array([1, 2, -1])  # node 5 makes an edge: 6 and 3 are left
    outgoing = other_nodes(kept, np.ones(2_000, dtype=bool), is_edge, distances, np.random.default_rng(0))
    assert set(outgoing[:50]) == {3, 6}
    incoming = other_nodes(kept, np.zeros(2_000, dtype=bool), is_edge, distances, np.random.default_rng(0))
    assert set(incoming[:50]) <= {2, 3}


def test_where_there_is_no_non_edge_none_is_made_up():
    all_edges = ~np.eye(3, dtype=bool)
    kept = np.arange(3)
    others = other_nodes(kept, np.ones(3, dtype=bool), all_edges, np.array([1]), np.random.default_rng(0))
    assert (others == NONE).all()
    edges = np.array([[5, 6], [9, 9]])
    assert (other_tokens(edges, np.array([0, 1]), np.random.default_rng(0)) == NONE).all()


def test_draws_depend_on_seed_epoch_and_row_alone(inputs, sampler):
    dataset = MethodDataset(inputs, sampler, seed=1)
    together = dataset[BatchRows(np.array([0, 3, 7]), epoch=2)]
    alone = dataset[BatchRows(np.array([3]), epoch=2)]
    tokens = together.tokens[1:, together.tokens[0] == 1]
    assert tokens.equal(alone.tokens[1:])
    pairs = together.pairs[EDGE]
    assert pairs[1:, pairs[0] == 1].equal(alone.pairs[EDGE][1:])
    later = dataset[BatchRows(np.array([3]), epoch=3)]
    assert not later.tokens.equal(alone.tokens)
    other_seed = MethodDataset(inputs, sampler, seed=2)
    assert other_seed[BatchRows(np.array([3]), None)].tokens.equal(dataset[BatchRows(np.array([3]), None)].tokens)


PARTS = np.array([TRAIN] * 20 + [VAL] * 10 + [TEST] * 10, dtype=np.int8)


@pytest.fixture
def make_data(inputs, tokenizer):
    def make(seed=0, objectives=OBJECTIVES, methods=None):
        vocabulary = find_vocabulary(tokenizer)
        return PretrainingDataModule(methods or inputs, PARTS, objectives, Shares(), vocabulary, 8, seed)

    return make


@pytest.fixture
def other_inputs(table, tokenizer):
    """The same training methods, and others in validation and test."""
    changed = table.copy()
    changed.loc[PARTS != TRAIN, "description"] = "void other(double[] x) { for (double y : x) { print(y); } }"
    return read_inputs(changed, tokenizer, InputLimits(), InputParts())[0]


def test_evaluation_is_the_same_with_every_seed_and_in_every_epoch(make_data):
    first, second = make_data(0), make_data(1)
    second.train_dataloader().sampler.set_epoch(3)
    for one, other in zip(first.val_dataloader(), second.val_dataloader(), strict=True):
        assert one.code.input_ids.equal(other.code.input_ids)
        assert all(one.pairs[name].equal(other.pairs[name]) for name in one.pairs)


def test_training_does_not_depend_on_the_other_parts(make_data, other_inputs):
    for one, other in zip(
        make_data().train_dataloader(), make_data(methods=other_inputs).train_dataloader(), strict=True
    ):
        assert one.code.input_ids.equal(other.code.input_ids)
        assert one.n_id.max() < 20
        assert all(one.pairs[name].equal(other.pairs[name]) for name in one.pairs)


def test_the_tokenizer_is_made_of_training_methods(methods_file):
    corpus = read_java_sources("java", str(methods_file))
    table = corpus.reports.copy()
    table.loc[PARTS != TRAIN, ["description", "comment"]] = "zebra zebra zebra"
    changed = replace(corpus, documents=Documents("java", table, more_texts=("comment",)))
    sizes = {"layers": 1, "hidden": 8, "heads": 1, "intermediate": 8, "vocab_size": 400, "max_tokens": 512}
    encoder = UntrainedEncoder("untrained", dropout=0.1, attention_dropout=0.0, seed=0, **sizes)
    _, one = starting_point(encoder, corpus, PARTS)
    _, other = starting_point(encoder, changed, PARTS)
    assert one.get_vocab() == other.get_vocab()


NO_EDGES = np.zeros((2, 0), dtype=np.int32)
# [CLS] [C] 8 tokens of code [SEP] [N] 4 nodes [T] 3 types [SEP]
LONG_METHOD = CodeInput(
    np.zeros(21, dtype=np.int32),
    np.array([[1, 0], [2, 8], [12, 4], [17, 3], [0, 0]]),
    CodeEdges(NO_EDGES, NO_EDGES, NO_EDGES, NO_EDGES),
    pad_id=0,
)


def predicted(targets, **pairs):
    made = {name: EdgePairs(np.array(ends).T, np.array(label)) for name, (ends, label) in pairs.items()}
    return Sample(LONG_METHOD, np.arange(len(targets)), np.array(targets), made)


def test_the_most_frequent_token_and_the_majority_by_type():
    train = [predicted([7, 7, 8], type=([(12, 17), (13, 17), (14, 18), (12, 18)], [1, 1, 1, 0]))]
    test = [predicted([7, 9], type=([(12, 17), (12, 18), (13, 19)], [1, 0, 0]))]
    rates = base_rates(train, test, ["mlm", "type"])
    # Type 17 is predicted as an edge, 18 is even and 19 unseen: no edges; all three are right.
    assert rates == {"mlm": 0.5, "type": 1.0}


def test_properties_of_pairs():
    keys, _ = keys_of(predicted([1], edge=([(12, 15), (14, 13)], [1, 0])), "edge")
    assert keys.tolist() == [3, -1]
    # Token 6 of the code is at 4/8 of it, which is node 2 of 4: the second node after node 0.
    keys, _ = keys_of(predicted([1], alignment=([(6, 12), (6, 14)], [1, 0])), "alignment")
    assert keys.tolist() == [2, 0]
