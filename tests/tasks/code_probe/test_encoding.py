"""Vectors against the encoder's own output, fine-tuning, and what the parts share."""

import numpy as np
import pytest
import torch

from gedbd.code.parse import method_graph
from gedbd.corpora.splits import TEST, TRAIN, VAL, FileSplit, split_corpus
from gedbd.encoders.code.encoder import load_code_encoder
from gedbd.tasks.code_probe.data import SampleSizes, read_data
from gedbd.tasks.code_probe.encoding import ProbedEncoder, untrained_copy
from gedbd.tasks.code_probe.fine_tuning import FineTuning, fine_tune, step_rows

SIZES = SampleSizes(train_variables=80, test_variables=40, train_pairs=50, test_pairs=50, queries=6)


@pytest.fixture(scope="module")
def encoder(make_run, tmp_path_factory) -> ProbedEncoder:
    folder = make_run(tmp_path_factory.mktemp("run"))
    return ProbedEncoder(load_code_encoder(folder / "encoder"), False, torch.device("cpu"))


@pytest.fixture(scope="module")
def parts(java_corpus):
    return split_corpus(FileSplit(val=0.2, test=0.3, seed=0), java_corpus)


@pytest.fixture(scope="module")
def data(java_corpus, parts, encoder):
    return read_data(java_corpus, parts, [encoder], SIZES, 8, 0)


def test_a_variable_has_the_mean_vector_of_its_tokens(encoder, data):
    codes = data.test.codes
    vectors = encoder.variable_vectors(codes, data.test.method, data.test.spans, "encode")
    tokenizer = encoder.saved.tokenizer
    for row in (0, 5, len(vectors) - 1):
        code = codes[data.test.method[row]]
        first, last = data.test.spans[row]
        found = tokenizer(code, return_offsets_mapping=True, add_special_tokens=False)
        chosen = [place for place, (a, b) in enumerate(found["offset_mapping"]) if a < last and b > first]
        middle = tokenizer.convert_tokens_to_ids("[C]")
        ids = [tokenizer.cls_token_id, middle, *found["input_ids"], tokenizer.sep_token_id]
        # Code and [C] attend to each other; [CLS] and [SEP] to all.
        mask = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool)
        mask[:, :, 1:-1, [0, -1]] = False
        with torch.inference_mode():
            hidden = encoder.saved.encoder.backbone(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
        expected = hidden[[2 + place for place in chosen]].mean(0).numpy()
        assert vectors[row] == pytest.approx(expected, abs=1e-5)


def test_vectors_do_not_depend_on_the_batch(encoder, data):
    inputs = [encoder.code_input(code, None) for code in data.search.codes]
    together = encoder.vectors(inputs, "code", "encode")
    alone = np.concatenate([encoder.vectors([one], "code", "encode") for one in inputs])
    assert together == pytest.approx(alone, abs=1e-5)


def test_a_method_read_with_its_graph_has_another_vector(encoder, data):
    code = data.search.codes[0]
    plain, with_graph = (
        encoder.vectors([encoder.code_input(code, graph)], "code", "encode") for graph in (None, method_graph(code))
    )
    # Small, as the weights are, but above the rounding of 1e-6.
    assert np.abs(plain - with_graph).max() > 1e-5


def test_no_tested_method_is_learnt_from(data, parts):
    for rows, part in ((data.train.rows, TRAIN), (data.val.rows, VAL), (data.test.rows, TEST)):
        assert len(rows)
        assert (parts[rows] == part).all()
    assert (parts[data.tuning.rows] == TRAIN).all()
    assert (parts[data.search.rows] == TEST).all()
    assert len(data.search) == SIZES.queries
    assert len(data.tuning) == 8


def test_a_corpus_without_comments_is_refused(java_corpus, parts, encoder):
    table = java_corpus.reports.assign(comment="")
    corpus = type(java_corpus).of_table("java", table, java_corpus.group)
    with pytest.raises(ValueError, match="0 comments in part train and 0 in part test"):
        read_data(corpus, parts, [encoder], SIZES, 8, 0)
    few = read_data(java_corpus, parts, [encoder], SampleSizes(80, 40, 50, 50, queries=1000), 8, 0)
    assert f"the test part has {len(few.search)} distinct comments" in few.warnings[0]


def test_fine_tuning_learns_and_leaves_the_encoder_alone(encoder, data):
    before = {name: value.clone() for name, value in encoder.saved.encoder.state_dict().items()}
    sample = data.tuning
    inputs = (sample.queries, sample.codes, [None] * len(sample))
    tuned = [fine_tune(encoder, *inputs, FineTuning(steps=2, batch_size=4), seed) for seed in (0, 0, 1)]
    states = [one.saved.encoder.state_dict() for one in tuned]
    assert all(torch.equal(value, before[name]) for name, value in encoder.saved.encoder.state_dict().items())
    assert all(torch.equal(value, states[0][name]) for name, value in states[1].items())
    assert not all(torch.equal(value, states[0][name]) for name, value in states[2].items())

    def own_cosine(one):
        queries = one.vectors([one.query_input(query) for query in sample.queries], "comment", "encode")
        methods = one.vectors([one.code_input(code, None) for code in sample.codes], "code", "encode")
        scores = torch.cosine_similarity(torch.tensor(queries)[:, None], torch.tensor(methods), dim=2)
        return float(scores.diagonal().mean() - scores.mean())

    settings = FineTuning(steps=50, batch_size=8, lr=3e-3)
    assert own_cosine(fine_tune(encoder, *inputs, settings, 0)) > own_cosine(encoder) + 0.05


def test_each_step_has_distinct_queries_and_the_rate_rises_and_falls():
    settings = FineTuning(steps=20, batch_size=3)
    rows = step_rows(7, settings, 0)
    assert len(rows) == 20
    assert all(len(set(step.tolist())) == 3 for step in rows)
    factors = [settings.lr_factor(step) for step in range(20)]
    assert factors[:4] == [0.5, 1.0, 1.0, 17 / 18]
    assert factors[-1] == 1 / 18


def test_untrained_weights_are_others_and_follow_the_seed(encoder):
    state = torch.random.get_rng_state()
    copies = [untrained_copy(encoder.saved, seed).encoder.state_dict() for seed in (3, 3, 4)]
    assert torch.equal(state, torch.random.get_rng_state())
    name = "backbone.embeddings.word_embeddings.weight"
    trained = encoder.saved.encoder.state_dict()[name]
    assert torch.equal(copies[0][name], copies[1][name])
    assert copies[0][name].shape == trained.shape
    assert not torch.equal(copies[0][name], copies[2][name])
    assert not torch.equal(copies[0][name], trained)
