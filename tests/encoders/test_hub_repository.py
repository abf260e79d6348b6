"""Encoders on a hub: what is uploaded, and that it loads by its name with the same vectors."""

import numpy as np
import pytest
import torch
from hub_server import TOKEN, HubServer, Repository
from huggingface_hub import constants
from local_server import running
from small_models import save_small_model

import gedbd
from gedbd.encoders.export_formats import FORMATS
from gedbd.encoders.hub_repository import HubRepository
from gedbd.encoders.loaded_encoder import load_encoder

TEXTS = ["slow", "crash on start of the editor", "crash " * 40]


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub in place of the one on the internet, with a cache of its own."""
    with running(HubServer()) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def exported(tmp_path):
    """A small encoder with a trained projection, and the folder of its export."""
    save_small_model(tmp_path / "source", "roberta")
    encoder = load_encoder("small", str(tmp_path / "source"), "cls", 8, 24, prefix="query: ")
    torch.nn.init.normal_(encoder.model.projection.bias)
    encoder.is_trained = True
    (tmp_path / "model").mkdir()
    FORMATS["sentence_transformers"].write(tmp_path / "model", encoder)
    (tmp_path / "model" / "README.md").write_text("---\nlicense: mit\n---\n")
    return encoder, tmp_path / "model"


@pytest.mark.integration
def test_an_uploaded_encoder_loads_by_its_name_with_the_same_vectors(hub: HubServer, exported, tmp_path):
    encoder, folder = exported
    repository = HubRepository("small-bugs", public=False)
    assert repository.address == f"{hub.url}/ann/small-bugs"
    repository.create("mit")
    uploaded = repository.upload(folder)
    assert hub.repositories.keys() == {"ann/small-bugs"}
    found = hub.repositories["ann/small-bugs"]
    assert found.private
    assert found.files == {name: (folder / name).read_bytes() for name in uploaded}
    assert {"README.md", "model.safetensors", "2_Dense/model.safetensors"} <= set(uploaded)
    expected = encoder.encode(TEXTS)
    by_command = load_encoder("small", "ann/small-bugs", "cls", 8, 24, prefix="query: ")
    np.testing.assert_allclose(by_command.encode(TEXTS), expected, atol=1e-6)
    by_python = gedbd.Encoder("ann/small-bugs", cache_dir=tmp_path / "cache")
    np.testing.assert_allclose(by_python.encode(TEXTS), expected, atol=1e-5)
    hub.shutdown()
    hub.server_close()
    again = load_encoder("small", "ann/small-bugs", "cls", 8, 24, prefix="query: ")  # from the cache
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-6)


def test_a_second_upload_replaces_files_and_public_means_public(hub, exported):
    for title in ("first", "second"):
        (exported[1] / "README.md").write_text(title)
        repository = HubRepository("ann/shared", public=True)
        repository.create()
        repository.upload(exported[1])
    assert not hub.repositories["ann/shared"].private
    assert hub.repositories["ann/shared"].files["README.md"] == b"second"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a/b/c", "repo=a/b/c is not a repository name, such as owner/name: Repo id must"),
        ("bob/new", r"repo=bob/new: the hub refuses \(403\): You don't have the rights .*: give a token with write"),
        ("bob/old", r"repo=bob/old: the hub refuses \(403\): Forbidden"),
        ("ann/open", "repo=ann/open exists and is public: set public=true, name another repository, or change"),
    ],
)
def test_a_wrong_repository_is_refused_before_the_upload(hub, name, message):
    hub.repositories["bob/old"] = Repository(False, {})
    hub.repositories["ann/open"] = Repository(False, {})
    with pytest.raises(ValueError, match=message) as caught:
        HubRepository(name, public=False).create()
    assert "\n" not in str(caught.value)
    assert hub.repositories.keys() == {"bob/old", "ann/open"}


def test_an_unknown_licence_is_refused(hub):
    with pytest.raises(ValueError, match=r'repo=ann/new: .*"license" must be one of'):
        HubRepository("ann/new", public=False).create("free")
    assert not hub.repositories


def test_a_hub_that_cannot_be_used_is_told(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ValueError, match=r"repo=new: the hub refuses \(401\): .*: give a token with write access$"):
        HubRepository("new", public=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"repo=new: HF_HUB_OFFLINE is set: export to a folder with to=folder out="):
        HubRepository("new", public=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"repo=new: http://127\.0\.0\.1:9 cannot be reached"):
        HubRepository("new", public=False)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere/token")
    with pytest.raises(ValueError, match=r"repo=new: there is no token for the hub: set HF_TOKEN, or run `hf auth"):
        HubRepository("new", public=False)
