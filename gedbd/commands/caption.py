"""Describe attached screenshots with a vision-language model."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.console import open_console, print_line, silence_library_logs


@command("caption")
def main(cfg: DictConfig) -> None:
    """Describes each distinct image that reports attach, once, and writes a table of captions by image name."""
    from gedbd.corpora.screenshots import check_images, images_in, problem_warnings, write_captions
    from gedbd.encoders.captioning import caption_images
    from gedbd.experiments.corpus_reading import print_fields, read_corpus
    from gedbd.io.table_files import check_writable

    check_writable(Path(cfg.out).expanduser(), ".csv", "a table of images and their captions")
    corpus = read_corpus(cfg.dataset)
    console = open_console()

    def say(line: str) -> None:
        print_line(console, f"{corpus.name}: {line}")

    image_dir, owner, image_warnings = images_in(corpus)
    print_fields(console, corpus)
    for warning in (*corpus.warnings, *image_warnings):
        say(warning)
    images = check_images(owner, image_dir, cfg.max_megapixels, cfg.max_megabytes)
    if all(image.problem for image in images):
        raise ValueError(f"nothing to describe: {'; '.join(problem_warnings(images, owner))} under {image_dir}")
    silence_library_logs()
    images, rows, summary = caption_images(images, instantiate(cfg.captioner), cfg.cache_dir, cfg.batch_size, say)
    for warning in problem_warnings(images, owner):
        say(warning)
    write_captions(Path(cfg.out), rows)
    print_line(console, f"{cfg.out}: {summary}")
