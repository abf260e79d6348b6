"""Describe attached screenshots: ``python -m gedbd.caption dataset=csv dataset.path=bugs.csv out=captions.csv``."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.build import quieten
from gedbd.config import door
from gedbd.data.captions import DESCRIBED, check_writable, images_in, write_captions
from gedbd.data.images import BROKEN, check_images, problem_notices
from gedbd.models.described import describe, kept_captions


@door("caption")
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
    quieten()
    captioner = instantiate(cfg.captioner)
    kept = kept_captions(captioner, cfg.cache_dir)
    images = check_images(owner, image_dir, cfg.max_megapixels, cfg.max_megabytes)
    wanted = {image.sha256: image.path for image in images if not image.problem}
    if not wanted:
        raise ValueError(f"nothing to describe: {'; '.join(problem_notices(images, owner))} under {image_dir}")
    captions: dict[str, str | None] = {sha256: kept[sha256] for sha256 in wanted.keys() & kept.keys()}
    old, started = len(captions), time.perf_counter()
    waiting = {sha256: path for sha256, path in wanted.items() if sha256 not in kept}
    for batch in describe(waiting, captioner, cfg.cache_dir, cfg.batch_size):
        captions |= batch
    seconds, new = time.perf_counter() - started, sum(captions[sha256] is not None for sha256 in waiting)
    damaged = {sha256 for sha256, caption in captions.items() if caption is None}
    images = [image._replace(problem=BROKEN) if image.sha256 in damaged else image for image in images]
    for notice in problem_notices(images, owner):
        console.print(f"{corpus.name}: {notice}")
    rows = [(i.name, i.sha256, captions.get(i.sha256) or "", i.problem or DESCRIBED) for i in images]
    write_captions(out, rows)
    console.print(
        f"{out}: {len(images):,} images; of {old + new:,} different ones {new:,} described anew in {seconds:.1f} s,"
        f" {old:,} from {cfg.cache_dir}; {sum(bool(image.problem) for image in images):,} not described"
    )


if __name__ == "__main__":
    main()
