import resource
import runpy
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import MISSING, OmegaConf

from gedbd.configuration.command import CONF_DIR, command

EMPTY = OmegaConf.create({"path": MISSING})
INTERRUPTED = """
import signal, sys
from gedbd.configuration import command

number = int(sys.argv.pop())
command.check_command_line = lambda *_: signal.raise_signal(number)
with command.sigterm_as_interrupt():
    command.command("describe")(lambda cfg: None)()
"""


def test_a_value_error_becomes_one_line_and_a_status():
    def task(cfg):
        raise ValueError("reports.csv, row 3: no date\ninternals")

    with pytest.raises(SystemExit) as raised:
        command("describe")(task)(EMPTY)
    assert raised.value.code == "error: reports.csv, row 3: no date"


@pytest.mark.integration
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_outside_of_a_training_becomes_one_line_and_a_status(number, status):
    # A process of its own: a signal that is not caught ends it, and not all tests.
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(int(number))], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "interrupted\n")


def test_a_missing_value_is_named():
    with pytest.raises(SystemExit, match=r"^error: path= is required, for example: path="):
        command("describe")(lambda cfg: cfg.path)(EMPTY)


@contextmanager
def small_files(size):
    """Lets no file grow beyond some bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_the_system_refuses_names_path_and_option(tmp_path):
    (tmp_path / "file").touch()
    for name, message in (
        ("file/table.csv", "move the file, or set out="),
        ("none/table.csv", "check the path"),
        ("", ""),
    ):
        cfg = OmegaConf.create({"out": str(tmp_path / name)})
        with pytest.raises(SystemExit, match=f"^error: {tmp_path / name}: .*{message}"):
            command("describe")(lambda cfg: Path(cfg.out).write_text("a"))(cfg)


@pytest.mark.parametrize("write", [pd.DataFrame.to_csv, pd.DataFrame.to_parquet])
def test_a_full_disk_is_told_with_the_folders_that_may_lie_on_it(tmp_path, write):
    numbers = pd.DataFrame({"number": np.random.default_rng(0).random(100_000)})
    cfg = OmegaConf.create({"out": str(tmp_path / "table"), "cache_dir": "~/cache"})
    with pytest.raises(SystemExit) as raised, small_files(100_000):
        command("describe")(lambda cfg: write(numbers, cfg.out))(cfg)
    message = raised.value.code
    assert message.startswith(f"error: out={tmp_path}/table or cache_dir={Path.home()}/cache or TMPDIR=")
    assert message.endswith(": file too large; free some space there, or set out= to another place")


def test_arguments_that_lightning_refuses_are_told_in_one_line():
    call = OmegaConf.create({"trainer": {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu"}})
    refused = {
        "max_epochz=3": r"trainer.max_epochz= is not an argument of pytorch_lightning.*Trainer: leave it out",
        "limit_val_batches=-3": r"trainer: .*limit_val_batches",
        "strategy=nothing": r"trainer: .*strategy='nothing'",
        "precision=3": r"trainer: Lightning's Trainer refuses it: Precision 3 is invalid",
        "limit_train_batches=abc": r"trainer: .* '.*' not supported between instances of",
    }
    for option, message in refused.items():
        cfg = OmegaConf.merge(call, OmegaConf.from_dotlist([f"trainer.{option}"]))
        with pytest.raises(SystemExit, match=f"^error: {message}") as raised:
            command("describe")(lambda cfg: instantiate(cfg.trainer))(cfg)
        assert "\n" not in raised.value.code


def fails_to_read(path):
    """A reader with a mistake in it."""
    raise KeyError(path)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("absent.Loss", "cannot import absent: loss._target_=absent.Loss; put its folder on PYTHONPATH"),
        ("gedbd.losses.absent.Loss", "loss._target_=gedbd.losses.absent.Loss: gedbd.losses has no absent"),
        ("gedbd.losses.Absent", "loss._target_=gedbd.losses.Absent: gedbd.losses has no Absent"),
        ("gedbd.losses", "loss: Expected a callable target, got "),
        ("broken_module.Loss", "cannot import loss._target_=broken_module.Loss: ModuleNotFoundError: No module named"),
        (f"{__name__}.fails_to_read", f"loss: {__name__}.fails_to_read fails: KeyError: 'a.csv'; HYDRA_FULL_ERROR=1"),
    ],
)
def test_what_cannot_be_created_is_told_in_one_line(target, message, tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("import absent")
    monkeypatch.syspath_prepend(tmp_path)
    cfg = OmegaConf.create({"loss": {"_target_": target, "path": "a.csv"}})
    with pytest.raises(SystemExit) as raised:
        command("describe")(lambda cfg: instantiate(cfg.loss))(cfg)
    assert raised.value.code.startswith(f"error: {message}")
    assert "\n" not in raised.value.code


def test_full_errors_on_request_and_for_our_own_mistakes(monkeypatch):
    def task(cfg):
        raise ValueError("where from?")

    with pytest.raises(ZeroDivisionError):
        command("describe")(lambda cfg: 1 / 0)(EMPTY)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="where from"):
        command("describe")(task)(EMPTY)


def test_every_folder_is_packaged(monkeypatch):
    root = Path(CONF_DIR).parent
    given = {}
    monkeypatch.chdir(root)
    monkeypatch.setattr("setuptools.setup", given.update)
    runpy.run_path("setup.py")
    code = {path.parent for folder in ("gedbd", "hydra_plugins") for path in root.glob(f"{folder}/**/__init__.py")}
    settings = {path.parent for path in root.glob("conf/**/*.yaml")}
    expected = {".".join(folder.relative_to(root).parts) for folder in code}
    expected |= {".".join(("gedbd", *folder.relative_to(root).parts)) for folder in settings}
    assert set(given["packages"]) - {"gedbd.conf.hydra"} == expected
