"""Modern encoders on tiny random models of their architecture, against sentence-transformers."""

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from small_models import HIDDEN, POSITIONS, byte_level, save_small_model, unigram

from gedbd.configuration.command import CONF_DIR
from gedbd.corpora.templates import FieldTemplate
from gedbd.encoders.backbone import max_positions
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_encoder, load_tiny_encoder
from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.text.cleaning import Cleaning

TEXTS = ["crash on start", "", "the editor", "crash " * 30, "on start of the editor: 日本", "crash on start"]
MAX_TOKENS = 20
# Those whose architecture or tokenizer differs come first.
ARCHITECTURES = {"modernbert_embed": "modernbert", "mpnet": "mpnet", "nomic": "nomic"}
ARCHITECTURES |= {"e5_small": "bert", "multilingual_e5_small": "bert"}
ARCHITECTURES |= dict.fromkeys(("modernbert", "gte_modernbert"), "modernbert")
ARCHITECTURES |= dict.fromkeys(("arctic", "bge_small", "gte_small", "multi_qa_minilm"), "bert")


def preset(name: str):
    return OmegaConf.load(f"{CONF_DIR}/encoder/{name}.yaml")


def by_sentence_transformers(folder, pooling: str, prefix: str | None, size: int | None = None) -> np.ndarray:
    """Vectors of ``TEXTS`` by another library."""
    modules = [Transformer(str(folder), max_seq_length=MAX_TOKENS), Pooling(HIDDEN, pooling_mode=pooling)]
    model = SentenceTransformer(modules=modules, prompts={"both": prefix or ""}, truncate_dim=size, device="cpu")
    return model.encode(TEXTS, prompt_name="both", normalize_embeddings=True)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_preset_gives_the_vectors_of_sentence_transformers(tmp_path, name):
    cfg = preset(name)
    folder = save_small_model(tmp_path, ARCHITECTURES[name], unigram() if name == "multilingual_e5_small" else None)
    encoder = instantiate(cfg, model=str(folder), max_tokens=MAX_TOKENS)
    assert max_positions(encoder.model.backbone) == POSITIONS
    assert encoder.model.projection.out_features == cfg.dim
    expected = by_sentence_transformers(folder, cfg.pooling, cfg.prefix)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS, kind="query"), expected, atol=1e-5)
    if cfg.prefix:
        without = by_sentence_transformers(folder, cfg.pooling, None)
        assert np.abs(without - expected).max() > 1e-2


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["modernbert_embed", "arctic"])
def test_truncated_vectors_are_those_of_sentence_transformers(tmp_path, name):
    cfg = preset(name)
    folder = save_small_model(tmp_path, ARCHITECTURES[name])
    encoder = instantiate(cfg, model=str(folder), max_tokens=MAX_TOKENS, dim=4, truncate_dim=8, matryoshka_dims=[16, 8])
    expected = by_sentence_transformers(folder, cfg.pooling, cfg.prefix, 8)
    assert expected.shape == (len(TEXTS), 8) == (len(TEXTS), encoder.dim)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS, kind="query"), expected, atol=1e-5)
    trained = encoder.model.eval()(*encoder.tokenize(TEXTS).batch(np.arange(len(TEXTS)))).detach().numpy()
    projected = encoder.project(encoder.pool(TEXTS))
    assert projected.shape == (len(TEXTS), 4)
    np.testing.assert_allclose(projected, trained, atol=1e-5)


def tiny_with(**given) -> LoadedEncoder:
    sizes = {"dim": 8, "max_tokens": MAX_TOKENS, "hidden": 16, "layers": 1, "dropout": 0.0, "seed": 0}
    return load_tiny_encoder("tiny", "mean", **sizes | given)


def test_vectors_with_another_prefix_are_kept_apart(tmp_path):
    plain = tiny_with(cache_dir=tmp_path).encode(TEXTS)
    query = tiny_with(cache_dir=tmp_path, prefix="query: ")
    with_prefix = query.encode(TEXTS)
    assert len(list(tmp_path.glob("*.sqlite"))) == 2
    assert np.abs(with_prefix - plain).max(axis=1).min() > 1e-3
    np.testing.assert_allclose(tiny_with().encode([f"query: {text}" for text in TEXTS]), with_prefix, atol=1e-5)
    assert (query.encode(TEXTS) == with_prefix).all()
    assert (tiny_with(cache_dir=tmp_path, prefix="").encode(TEXTS) == plain).all()


def test_all_truncated_sizes_read_one_file_of_whole_vectors(tmp_path):
    folder = str(save_small_model(tmp_path / "model", "bert"))
    pooled = {}
    for size in (None, 8, 4):
        options = {"truncate_dim": size, "matryoshka_dims": [8, 4], "cache_dir": tmp_path / "cache"}
        pooled[size] = load_encoder("mine", folder, "cls", 4, MAX_TOKENS, **options).pool(TEXTS)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert pooled[None].shape == (len(TEXTS), HIDDEN)
    for size in (8, 4):
        assert (pooled[size] == pooled[None][:, :size]).all()


@pytest.mark.parametrize(("make", "prefix_tokens"), [(tiny_tokenizer, 2), (byte_level, 6), (unigram, 2)])
def test_a_text_template_leaves_the_prefix_its_tokens(make_corpus, make, prefix_tokens):
    encoder = LoadedEncoder(tiny_with().model, make(), 80, prefix="query: ")
    assert (encoder.prefix_tokens, encoder.text_tokens) == (prefix_tokens, 80 - prefix_tokens)
    template = FieldTemplate(["description", "summary"], {"description": None, "summary": 8}, None, Cleaning())
    reports = make_corpus([0]).reports.assign(title="crash", description="on " * 100)
    (text,) = template(reports, encoder.tokenizer, encoder.text_tokens).texts
    assert text.endswith("[SUMMARY] crash")
    (whole,) = encoder.tokenizer([f"query: {text}"])["input_ids"]
    assert 70 <= len(whole) <= 80
    assert encoder.tokenize([text]).ids.tolist() == whole


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prefix": 5}, r"encoder.prefix=5 must be a string"),
        ({"prefix": "query: " * 9}, r"encoder.prefix='query: .*' takes \d+ of 20 tokens and leaves none for the text"),
        ({"truncate_dim": 8}, r"encoder.truncate_dim=8: .* mine was trained for, are none: choose"),
        ({"truncate_dim": 7, "matryoshka_dims": [16, 8]}, r"encoder.truncate_dim=7: .* are 16 and 8: choose one"),
        ({"truncate_dim": 32, "matryoshka_dims": [32]}, r"truncate_dim=32 is more than the 16 numbers"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path, given, message):
    folder = str(save_small_model(tmp_path, "bert"))
    with pytest.raises(ValueError, match=message):
        load_encoder("mine", folder, "mean", 4, MAX_TOKENS, **given)
