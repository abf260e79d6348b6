import subprocess
import sys
from pathlib import Path

import pytest

HASHES = """
import hashlib
from test_gensim_models import BODIES, MODELS, TITLES, fit
for name in MODELS:
    model, table = fit(name, TITLES * 2, BODIES * 2)
    print(hashlib.sha256(model.encode(table).tobytes()).hexdigest())
"""


@pytest.mark.slow  # two processes that import gensim
def test_two_processes_learn_the_same(monkeypatch):
    printed = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        program = [sys.executable, "-c", HASHES]
        printed.append(subprocess.run(program, cwd=Path(__file__).parent, capture_output=True, check=True).stdout)
    assert printed[0] == printed[1]
    assert len(set(printed[0].split())) == 3
