"""Describe attached screenshots: ``python -m gedbd.caption dataset=csv dataset.path=bugs.csv out=captions.csv``."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.corpora.captions import DESCRIBED, check_writable, images_in, write_captions
from gedbd.corpora.images import check_images, problem_notices
from gedbd.encoders.vision.caption_cache import Caption, describe, kept_captions
from gedbd.io.library_logs import silence_library_logs


@command("caption")
def main(cfg: DictConfig) -> None:
    """Describes each distinct image that reports attach, once, and writes a table of captions by image name."""
    console, out = Console(soft_wrap=True, highlight=False, markup=False), Path(cfg.out)
    check_writable(out)
    for setting in ("batch_size", "max_megapixels", "max_megabytes"):
        if not cfg[setting] > 0:
            raise ValueError(f"{setting}={cfg[setting]} must be above 0")
    corpus = instantiate(cfg.dataset)
    image_dir, owner, notices = images_in(corpus)
    for notice in (*corpus.notices, *notices):
        console.print(f"{corpus.name}: {notice}")
    silence_library_logs()
    captioner = instantiate(cfg.captioner)
    kept = kept_captions(captioner, cfg.cache_dir)
    images = check_images(owner, image_dir, cfg.max_megapixels, cfg.max_megabytes)
    wanted = {image.sha256: image.path for image in images if not image.problem}
    if not wanted:
        raise ValueError(f"nothing to describe: {'; '.join(problem_notices(images, owner))} under {image_dir}")
    captions = {sha256: Caption(kept[sha256]) for sha256 in wanted.keys() & kept.keys()}
    waiting = {sha256: path for sha256, path in wanted.items() if sha256 not in kept}
    if waiting and (announced := captioner.announce(len(waiting))):
        console.print(f"{corpus.name}: {announced}")
    started = time.perf_counter()
    for batch in describe(waiting, captioner, cfg.cache_dir, cfg.batch_size):
        captions |= batch
    seconds = time.perf_counter() - started
    images = [image._replace(problem=image.problem or captions[image.sha256].problem) for image in images]
    for notice in problem_notices(images, owner):
        console.print(f"{corpus.name}: {notice}")
    none = Caption("")
    rows = [(i.name, i.sha256, captions.get(i.sha256, none).text, i.problem or DESCRIBED) for i in images]
    write_captions(out, rows)
    new = sum(not captions[sha256].problem for sha256 in waiting)
    failed = sum(bool(image.problem) for image in images)
    console.print(
        f"{out}: {len(images):,} images; of {len(wanted):,} different ones {new:,} newly described in {seconds:.1f} s,"
        f" {len(wanted) - len(waiting):,} from {cfg.cache_dir}; {failed:,} not described"
    )


if __name__ == "__main__":
    main()
