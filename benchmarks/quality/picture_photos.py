"""The portraits of `python -m benchmarks.picture`: public-domain photographs that come inside Python packages, and the drawing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from benchmarks.quality.main_job_run import CaseLeftOut
from kernels.arrays import U8

PHOTOS: Final = ("astronaut", "grace_hopper")
"""`scikit-image`'s portrait of Eileen Collins (NASA) and `matplotlib`'s of Grace Hopper (US Navy), both in the public domain."""


def darker(photo: U8) -> U8:
    """The same photograph, taken with 45 % of the light."""
    return np.asarray(np.rint(photo.astype(np.float64) * 0.45), dtype=np.uint8)


def load_photo(name: str) -> U8:
    """A photograph, uint8 (H, W, 3), RGB.

    Raises:
        CaseLeftOut: Its package is not installed.
    """
    try:
        if name == "astronaut":
            picture = import_module("skimage.data").astronaut()
        else:
            folder = Path(import_module("matplotlib").get_data_path()) / "sample_data"
            with Image.open(folder / "grace_hopper.jpg") as stored:
                picture = np.asarray(stored.convert("RGB"))
    except ImportError as error:
        raise CaseLeftOut(f"no photograph {name} ({error}); pip install scikit-image matplotlib") from error
    return np.ascontiguousarray(picture, dtype=np.uint8)
