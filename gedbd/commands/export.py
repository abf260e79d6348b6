"""Export a trained encoder to a folder that other programs can read without gedbd."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.configuration.saved_options import check_run_folder
from gedbd.io.console import open_console, print_path


@command("export")
def main(cfg: DictConfig) -> None:
    """Writes a run's text branch, and keeps the folder only if its vectors equal gedbd's."""
    check_run_folder(Path(cfg.run))
    with gc_paused():
        from gedbd.encoders.export_formats import check_free, find_format
        from gedbd.experiments.trained_encoder import export_run
        from gedbd.io.console import silence_library_logs

    folder = Path(cfg.run)
    out = Path(cfg.out)
    form = find_format(cfg.format)
    check_free(out)
    silence_library_logs()
    count, difference = export_run(folder, cfg.checkpoint, cfg.format, form, out, cfg.cache_dir)
    said = f"{cfg.format}, {count} texts encoded with it and with gedbd, largest difference {difference:.1e}:"
    print_path(open_console(), said, out)


if __name__ == "__main__":
    main()
