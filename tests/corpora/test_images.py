import hashlib
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gedbd.corpora.screenshots import check_images, open_image, problem_warnings

LIMITS = {"max_megapixels": 1, "max_megabytes": 1}


def bomb(width: int, height: int) -> bytes:
    """A PNG file that declares a size and holds nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def problems(folder: Path, *names: str, **limits: float) -> list[str]:
    return [image.problem for image in check_images(names, folder, **LIMITS | limits)]


def test_a_sound_image_is_hashed(tmp_path):
    Image.new("RGB", (1000, 1000)).save(tmp_path / "a.png")
    (image,) = check_images(["a.png", "a.png"], tmp_path, **LIMITS)
    assert image.name == "a.png"
    assert image.sha256 == hashlib.sha256((tmp_path / "a.png").read_bytes()).hexdigest()
    assert image.problem == ""
    assert open_image(image.path).size == (1000, 1000)


@pytest.mark.filterwarnings("error::PIL.Image.DecompressionBombWarning")
def test_sizes_are_refused_before_anything_is_decoded(tmp_path):
    Image.new("RGB", (1001, 1000)).save(tmp_path / "wide.png")
    sizes = {"far.png": 9_500, "farther.png": 2**31 - 1}
    for name, side in sizes.items():
        (tmp_path / name).write_bytes(bomb(side, side))
    (tmp_path / "heavy.png").write_bytes(bytes(1_000_001))
    assert problems(tmp_path, "wide.png", *sizes, "heavy.png") == ["too large"] * 4
    assert problems(tmp_path, "wide.png", "far.png", max_megapixels=100) == ["", ""]
    assert problems(tmp_path, *sizes, max_megapixels=10_000) == ["", "too large"]
    assert problems(tmp_path, "wide.png", max_megabytes=0.001) == ["too large"]
    with pytest.raises(ValueError, match=r"farther.png: the image cannot be decoded"):
        open_image(tmp_path / "farther.png")


def test_what_is_not_there_or_no_image_is_told_apart(tmp_path):
    folder = tmp_path / "images"
    (folder / "folder.png").mkdir(parents=True)
    Image.new("L", (9, 9)).save(tmp_path / "secret.png")
    Image.new("L", (9, 9)).save(folder / "inside.png")
    Image.new("L", (9, 9)).save(folder / "other.png", format="TIFF")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "text.png").write_text("no image")
    (folder / "empty.png").write_bytes(b"")
    expected = {
        "inside.png": "",
        "./folder.png/../inside.png": "",
        "../images/inside.png": "",
        str(folder / "inside.png"): "",
        "none.png": "missing",
        "folder.png": "missing",
        "loop.png": "missing",
        "zero\0.png": "missing",
        "long" * 100 + ".png": "missing",
        "../secret.png": "outside image_dir",
        "../none.png": "outside image_dir",
        str(tmp_path / "secret.png"): "outside image_dir",
        "link.png": "outside image_dir",
        "text.png": "broken",
        "empty.png": "broken",
        "other.png": "broken",
    }
    assert dict(zip(expected, problems(folder, *expected), strict=True)) == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_broken(tmp_path):
    Image.new("L", (9, 9)).save(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    assert problems(tmp_path, "a.png") == ["broken"]


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "bmp", "webp"])
def test_a_truncated_file_shows_when_it_is_decoded(tmp_path, kind):
    noise = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / f"whole.{kind}")
    whole = (tmp_path / f"whole.{kind}").read_bytes()
    (tmp_path / f"half.{kind}").write_bytes(whole[: len(whole) // 2])
    assert open_image(tmp_path / f"whole.{kind}").size == (50, 50)
    with pytest.raises(ValueError, match=rf"half.{kind}: the image cannot be decoded"):
        open_image(tmp_path / f"half.{kind}")


def test_transparent_pixels_lie_on_white(tmp_path):
    image = Image.new("RGBA", (3, 1))
    for column, alpha in enumerate((0, 255, 51)):
        image.putpixel((column, 0), (0, 0, 0, alpha))
    image.save(tmp_path / "alpha.png")
    found = open_image(tmp_path / "alpha.png")
    assert [found.getpixel((column, 0)) for column in range(3)] == [(255,) * 3, (0,) * 3, (204,) * 3]
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "palette.png", transparency=0)
    found = open_image(tmp_path / "palette.png")
    assert [found.getpixel((column, 0)) for column in range(2)] == [(255, 255, 255), (40, 50, 60)]


def test_every_mode_becomes_rgb(tmp_path):
    Image.new("CMYK", (4, 4), (0, 0, 0, 0)).save(tmp_path / "cmyk.jpg")
    Image.new("1", (4, 4), 1).save(tmp_path / "bits.png")
    Image.new("LA", (4, 4), (9, 0)).save(tmp_path / "grey.png")
    Image.new("I;16", (4, 4), 128 * 256).save(tmp_path / "deep.png")
    for name, value in (("cmyk.jpg", 255), ("bits.png", 255), ("grey.png", 255), ("deep.png", 128)):
        image = open_image(tmp_path / name)
        assert (image.mode, image.getpixel((0, 0))) == ("RGB", (value,) * 3), name


def test_a_photo_of_a_screen_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(tmp_path / "a.jpg", exif=exif)
    assert open_image(tmp_path / "a.jpg").size == (4, 8)


def test_problems_are_counted_and_the_first_are_named(tmp_path):
    names = ["a.png", "../b.png", "c.png", "d.png", "e.png"]
    owner = {name: str(number) for number, name in enumerate(names)}
    assert problem_warnings(check_images(names, tmp_path, **LIMITS), owner) == [
        "images not described: 4 (missing; first: a.png of report 0, c.png of report 2, d.png of report 3)",
        "images not described: 1 (outside image_dir; first: ../b.png of report 1)",
    ]
    assert problem_warnings([], {}) == []
