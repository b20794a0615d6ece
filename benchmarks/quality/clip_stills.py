"""Stills of a talking clip in one picture, for looking at it: `python -m benchmarks.quality.clip_stills talk.mp4 stills.jpg`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from benchmarks.core.decode import decode_rgb
from kernels.arrays import U8
from kernels.errors import InvalidInputError

QUALITY: Final = 88


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """`wanted` indices out of `count`, first and last included; fewer when there are fewer."""
    return sorted(set(np.linspace(0, count - 1, min(wanted, count)).round().astype(int).tolist()))


def tile_stills(frames: list[U8], columns: int, height: int) -> U8:
    """Frames uint8 (H, W, 3) side by side, each `height` pixels high, `columns` to a row; the rest is white."""
    width = round(height * frames[0].shape[1] / frames[0].shape[0])
    tiles = [np.asarray(cv2.resize(f, (width, height), interpolation=cv2.INTER_AREA), np.uint8) for f in frames]
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def clip_stills(
    video: Path,
    *,
    first: int,
    last: int | None,
    wanted: int,
    crop: tuple[int, int, int, int] | None,
    columns: int,
    height: int,
) -> U8:
    """Stills of frames `first`..`last` (inclusive, None = the end), cut to `crop` (x, y, w, h) when given.

    Raises:
        InvalidInputError: The range holds no frame.
    """
    frames = list(decode_rgb(video))[first : None if last is None else last + 1]
    if not frames:
        raise InvalidInputError("first", str(first), "a frame inside the clip")
    chosen = [frames[i] for i in evenly_spaced(len(frames), wanted)]
    if crop is not None:
        x, y, w, h = crop
        chosen = [frame[y : y + h, x : x + w] for frame in chosen]
    return tile_stills(chosen, columns, height)


def main(arguments: list[str] | None = None) -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", type=Path)
    parser.add_argument("picture", type=Path, help="JPEG or PNG to write")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int)
    parser.add_argument("--stills", type=int, default=12)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--height", type=int, default=360, help="pixels per still")
    parser.add_argument("--crop", type=int, nargs=4, metavar=("X", "Y", "W", "H"))
    options = parser.parse_args(arguments)
    picture = clip_stills(
        options.video,
        first=options.first,
        last=options.last,
        wanted=options.stills,
        crop=tuple(options.crop) if options.crop else None,
        columns=options.columns,
        height=options.height,
    )
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    return 0 if cv2.imwrite(str(options.picture), bgr, [cv2.IMWRITE_JPEG_QUALITY, QUALITY]) else 1


if __name__ == "__main__":
    sys.exit(main())
