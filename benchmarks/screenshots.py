"""Draws screenshots for a tracker without: ``python benchmarks/screenshots.py reports.csv.xz folder``.

It draws a few dozen dialogs for reports of a tracker, as a program would show them, and writes what is on them into a
table such as ``gedbd caption`` makes. A picture shows nothing but its report's component and title, so it tells a model
nothing that the text does not: a result shows that captions are read, not what real screenshots are worth.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image, ImageDraw, ImageFont

from gedbd.corpora.fields import components
from gedbd.corpora.screenshots import check_images, write_captions
from gedbd.io.files import CONF_DIR

COUNT, SEED = 48, 0
SIZE, MARGIN, LINE, LETTERS = (640, 240), 20, 26, 60


def main(path: str, folder: Path) -> None:
    """Draws, writes ``images/``, ``captions.csv`` and a copy of the reports that names the images."""
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        corpus = instantiate(compose("describe", ["dataset=csv", f"dataset.path={path}"]).dataset)
    reports, rng = corpus.reports, np.random.default_rng(SEED)
    grouped = np.flatnonzero(corpus.relevance.in_group & (reports["title"].str.strip() != ""))
    rows = np.sort(rng.choice(grouped, min(COUNT, len(grouped)), replace=False))
    (folder / "images").mkdir(parents=True, exist_ok=True)
    titles, windows = (table.str.strip().to_numpy() for table in (reports["title"], components(reports)))
    names = {row: f"images/{reports['id'][row]}.png" for row in rows}
    for row, name in names.items():
        draw(windows[row], titles[row]).save(folder / name)
    owner = {name: reports["id"][row] for row, name in names.items()}
    images = {image.name: image.sha256 for image in check_images(owner, folder, 50, 50)}
    said = {names[row]: f'A dialog titled "{windows[row]}" with the message "{titles[row]}"' for row in rows}
    write_captions(folder / "captions.csv", [(name, images[name], said[name], "described") for name in said])
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    attached = table["Issue_id"].str.strip().map({issue_id: name for name, issue_id in owner.items()})
    table.assign(Attachments=attached.fillna("")).to_csv(folder / "reports.csv.xz", index=False)
    print(f"{folder}: {len(rows)} images of {len(reports):,} reports")


def draw(window: str, message: str) -> Image.Image:
    """A dialog: a title bar, a message, a button."""
    image = Image.new("RGB", SIZE, "#f2f2f2")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(18)
    pen.rectangle((0, 0, SIZE[0], 36), fill="#27537a")
    pen.text((MARGIN, 8), window[:LETTERS], fill="white", font=font)
    for number in range(0, min(len(message), 4 * LETTERS), LETTERS):
        place = (MARGIN, 60 + number // LETTERS * LINE)
        pen.text(place, message[number : number + LETTERS], fill="black", font=font)
    pen.rectangle((540, 190, 620, 222), outline="black")
    pen.text((568, 196), "OK", fill="black", font=font)
    return image


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
