"""Draws the gallery and writes what the package ships: `python -m training.gallery [NAME ...]`; some minutes for all."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from pipeline.gallery.pictures import FOLDER, NAMES, POINTS_FILE, picture_file, read_picture
from training.gallery.people import MAKERS
from training.gallery.sitter import Painting, landmarks, paint

QUALITY: Final = 88
MAX_BYTES: Final = 120_000
SHEET: Final = Path(__file__).resolve().parents[2] / "docs" / "images" / "gallery.jpg"


def write(name: str, painting: Painting) -> int:
    """Write a picture; its size in bytes.

    Raises:
        ValueError: It is larger than `MAX_BYTES`.
    """
    path = picture_file(name)
    Image.fromarray(painting.rgba).save(path, "WEBP", quality=QUALITY, method=6, exact=True)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path.name} has {size} bytes; at most {MAX_BYTES} are allowed")
    return size


def write_sheet() -> None:
    """Write all presenters side by side, as the README shows them."""
    size = (240, 427)
    sheet = Image.new("RGB", (size[0] * len(NAMES), size[1]))
    for at, name in enumerate(NAMES):
        sheet.paste(Image.fromarray(read_picture(name).rgb).resize(size, Image.Resampling.LANCZOS), (at * size[0], 0))
    sheet.save(SHEET, quality=86)


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(
        description="Draws the gallery of presenters and writes its pictures and landmarks."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all when none is given")
    names = parser.parse_args().names or list(NAMES)
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        print(f"{picture_file(name).name}: {write(name, paint(MAKERS[name]()))} bytes", flush=True)
    points = np.stack([landmarks(MAKERS[name]()) for name in NAMES])
    np.save(POINTS_FILE, points.astype(np.float32), allow_pickle=False)
    write_sheet()


if __name__ == "__main__":
    main()
