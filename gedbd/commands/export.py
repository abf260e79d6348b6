"""Export a trained encoder to a folder or the Hugging Face hub, or the test pairs and queries of a run."""

from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.experiments.run_folder import check_run_folder
from gedbd.io.console import open_console, print_line, print_next_step, print_path, silence_library_logs

DESTINATIONS = ("folder", "hub", "adapter", "pairs", "beir")


@command("export")
def main(cfg: DictConfig) -> None:
    """Writes or uploads a run's text branch after checking its vectors, or writes the run's pairs and queries."""
    if cfg.to not in DESTINATIONS:
        raise ValueError(f"to={cfg.to} is unknown: choose {', '.join(DESTINATIONS)}")
    if cfg.to != "hub" and cfg.out is None:
        raise ValueError(f"out= is required, for example: out=my-{'model' if cfg.to == 'folder' else cfg.to}")
    if cfg.to == "hub" and cfg.repo is None:
        raise ValueError("repo= is required with to=hub, for example: repo=OWNER/NAME")
    if cfg.to != "hub" and cfg.repo is not None:
        raise ValueError(f"repo={cfg.repo} is used only with to=hub: add to=hub")
    if cfg.to != "beir" and cfg.queries is not None:
        raise ValueError(f"queries={cfg.queries} is used only with to=beir: add to=beir")
    if cfg.to == "adapter" and cfg.format != "sentence_transformers":
        raise ValueError(f"format={cfg.format} is not used with to=adapter: leave one of them out")
    check_run_folder(Path(cfg.run))
    if cfg.to in ("pairs", "beir"):
        write_queries(cfg)
    else:
        write_model(cfg)


def write_queries(cfg: DictConfig) -> None:
    """Writes the pairs and queries of a run, or its queries in BEIR's format."""
    with gc_paused():
        from gedbd.encoders.export_formats import check_free
        from gedbd.experiments.pairs_export import export_beir, export_pairs

    out = Path(cfg.out)
    check_free(out)
    console = open_console()
    if cfg.to == "beir":
        export_beir(Path(cfg.run), out, cfg.queries, console)
        print_path(console, "reports, queries, qrels and candidates, described in README.md:", out)
    else:
        export_pairs(Path(cfg.run), out, console)
        print_path(console, "reports, pairs, queries and the run's scores, described in README.md:", out)


def write_model(cfg: DictConfig) -> None:
    """Writes a run's text branch, and keeps or uploads the folder only if its vectors are equal to gedbd's."""
    with gc_paused():
        from gedbd.encoders.export_formats import check_free, find_format
        from gedbd.encoders.hub_repository import HubRepository
        from gedbd.experiments.trained_encoder import export_run, run_adapter

    folder = Path(cfg.run)
    name = "adapter" if cfg.to == "adapter" else cfg.format
    form = run_adapter(folder, cfg.checkpoint) if cfg.to == "adapter" else find_format(cfg.format)
    if cfg.out is not None:
        check_free(Path(cfg.out))
    repository = None if cfg.to != "hub" else HubRepository(str(cfg.repo), cfg.public)
    silence_library_logs()
    console = open_console()
    with TemporaryDirectory() as temporary:
        out = Path(temporary) / "model" if cfg.out is None else Path(cfg.out)
        export = export_run(folder, cfg.checkpoint, name, form, out, cfg.cache_dir, cfg.license, repository)
        summary = f"{name}, {export.texts} texts encoded with it and with gedbd, largest difference"
        summary += f" {export.difference:.1e}"
        if cfg.out is None:
            print_line(console, summary)
        else:
            print_path(console, f"{summary}:", out)
        if repository is not None:
            files = repository.upload(out)
            visibility = "public" if cfg.public else "private"
            print_path(console, f"uploaded {len(files)} files ({', '.join(files)}), {visibility}:", repository.address)
            if cfg.format == "sentence_transformers":
                print_next_step(console, "Use it in any command by this option:", f"encoder.model={repository.name}")
