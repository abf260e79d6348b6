"""Fixtures of sweeps: in this process, or started as a user does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gedbd

ROOT = Path(gedbd.__file__).parents[1]


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Runs a command as a sweep in this process, in the folder ``sweep``; gives that folder."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(command, *options):
        monkeypatch.setattr(sys, "argv", ["gedbd", "-m", *options, "hydra.sweep.dir=sweep"])
        command()
        return tmp_path / "sweep"

    return run


@pytest.fixture
def start(tmp_path):
    """Starts a command as a user does, with processes of its own."""
    shared = {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def begin(*options, module="gedbd.train"):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path}
        command = [sys.executable, "-m", module, *options]
        return subprocess.Popen(command, env=os.environ | shared, start_new_session=True, **pipes)

    return begin
