"""Write the vectors of all reports of a corpus to a file."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import command, gc_paused
from gedbd.experiments.run_folder import check_run_folder, find_run
from gedbd.io.console import open_console, silence_library_logs


@command("encode")
def main(cfg: DictConfig) -> None:
    """Encodes all reports with a run's trained encoder, or the untrained one, and writes ids and unit vectors."""
    if cfg.run:
        check_run_folder(Path(cfg.run))
    with gc_paused():
        from gedbd.experiments.trained_encoder import encode_corpus
        from gedbd.io.table_files import check_writable

    weights = None
    check_writable(Path(cfg.out), ".npz", "ids and vectors as NumPy arrays")
    if cfg.run:
        saved, weights = find_run(Path(cfg.run), cfg.checkpoint)
        cfg.encoder = saved.encoder
        cfg.text = saved.text
        if OmegaConf.is_missing(cfg.dataset, "path"):
            cfg.dataset = saved.dataset
    silence_library_logs()
    encode_corpus(cfg, weights, open_console())
