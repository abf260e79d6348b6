"""Ray as a backend, on a cluster of two nodes that are processes of this machine."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gedbd.encoders.backend import Torch, encode_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.ray_backend import Ray
from gedbd.text.tokens import tokenize

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "large.md").read_text()
TEXTS = [f"{'crash on start of the editor ' * (number % 6)}{number}" for number in range(90)] + ["", "slow"]


@pytest.fixture(scope="module")
def cluster():
    """The address of two nodes with one core each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


def test_a_cluster_that_does_not_answer_is_told_at_once(tiny):
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=r"backend.address=127.0.0.1:1: no Ray cluster answers there \(.*refused"):
        Ray("127.0.0.1:1", workers=2, cpus=1, gpus=0).prepare(tiny[0])


@pytest.mark.slow
def test_workers_give_the_vectors_of_torch_in_the_order_of_the_texts(tiny, tmp_path, cluster):
    encoder, tokenizer = tiny
    table = tokenize(TEXTS, tokenizer, 24)
    expected = encode_texts(table, Torch().prepare(encoder))
    backend = Ray(cluster, workers=2, cpus=1, gpus=0)
    prepared = backend.prepare(encoder)
    for tokens_a_batch in (200, 10**6):
        prepared.tokens_a_batch = tokens_a_batch
        found = encode_texts(table, prepared)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
    through = LoadedEncoder(encoder, tokenizer, 24, backend, tmp_path).pool(TEXTS)
    np.testing.assert_allclose(through, expected, atol=1e-5)
    again = LoadedEncoder(encoder, tokenizer, 24, cache_dir=tmp_path).pool(TEXTS)  # kept as PyTorch's own
    assert (again == through).all()


@pytest.mark.slow
def test_a_killed_worker_changes_no_vector(tiny, cluster):
    psutil = pytest.importorskip("psutil")
    encoder, tokenizer = tiny
    table = tokenize(TEXTS, tokenizer, 24)
    prepared = Ray(cluster, workers=2, cpus=1, gpus=0).prepare(encoder)
    prepared.tokens_a_batch = 60  # many batches
    expected = encode_texts(table, prepared)
    killed = []

    def encode(batches, encode=prepared.encode):
        for vectors in encode(batches):
            if not killed:
                children = psutil.Process().children(recursive=True)
                killed.extend(one for one in children if "ray::MapWorker" in one.name() + " ".join(one.cmdline()))
                killed[0].kill()
            yield vectors

    prepared.encode = encode
    found = encode_texts(table, prepared)
    assert killed
    assert (found == expected).all()


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_command_of_the_manual_starts_workers_where_there_is_no_cluster(tmp_path):
    pytest.importorskip("ray")
    (command,) = re.findall(r"^gedbd encode (.*backend=ray.*?)\s*(?:#.*)?$", PAGE, flags=re.MULTILINE)
    here = {"dataset.path=bugs.csv": "dataset=demo", "backend.address=auto": "backend.address=null"}
    here["backend.workers=16"] = "backend.workers=2"
    options = [here.get(word, word) for word in shlex.split(command)]
    assert set(here.values()) <= set(options)
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    settings = {"cwd": tmp_path, "env": environment, "check": True, "capture_output": True, "timeout": 300}
    done = subprocess.run([sys.executable, "-m", "gedbd", "encode", *options, "encoder=tiny"], **settings)
    assert b"vectors.npz: 425 reports, 32 dimensions" in done.stdout
    with np.load(tmp_path / "vectors.npz") as found:
        assert found["vectors"].shape == (425, 32)


@pytest.mark.slow
def test_a_cluster_without_gpu_is_told(tiny, cluster):
    with pytest.raises(ValueError, match=r"backend.cpus=1, backend.gpus=1: the cluster has 2 cores and 0 GPUs"):
        Ray(cluster, workers=2, cpus=1, gpus=1).prepare(tiny[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, r"set 1 or more workers and CPUs per worker, and 0 or 1 GPUs"),
        ({"gpus": 2}, r"set 1 or more workers and CPUs per worker, and 0 or 1 GPUs"),
        ({"address": "ray://head:10001"}, r"backend.address=ray://head:10001: Ray Data must run on a machine of the"),
    ],
)
def test_options_that_cannot_work_are_refused(options, message):
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=message):
        Ray(**{"address": None, "workers": 1, "cpus": 1, "gpus": 0} | options)


def test_without_ray_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'gedbd\[ray\]'"):
        Ray(None, workers=1, cpus=1, gpus=0)
