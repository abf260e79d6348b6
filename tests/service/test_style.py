"""The page's colours can be told apart by everybody: contrast as the accessibility guidelines (WCAG 2) reckon it."""

import re

import pytest

from gedbd.service.app import PAGE_DIR

LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#\w{6});", block))
    for block in re.findall(r":root \{(.*?)\}", (PAGE_DIR / "style.css").read_text(), flags=re.DOTALL)
)
PAIRS = [
    *((text, ground) for text in ("text", "quiet", "accent", "good", "bad") for ground in ("ground", "surface")),
    *(("text", "raised"), ("on-accent", "accent"), ("on-mark", "mark")),
]


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_stands_out(colours, text, ground):
    dim, bright = sorted((luminance(colours[text]), luminance(colours[ground])))
    assert (bright + 0.05) / (dim + 0.05) >= 4.5
