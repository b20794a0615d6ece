"""A contact sheet of what the mesh renderer draws: `python -m benchmarks.quality.renderer_sheet SHEET.png [--portrait PHOTO]`.

For people to look at; nothing here is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import cv2
import numpy as np
import torch

from benchmarks.quality.renderer_speed import talking_motion
from engines.mini.mesh_renderer import MeshRenderer
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp
from engines.motion_layout import pack_motion
from kernels.arrays import U8
from kernels.errors import LiveAnchorError
from pipeline.avatars.face_models import load_face_mesh
from pipeline.mini.presenter import default_avatar
from pipeline.mini.registration import register_file
from pipeline.types import Avatar

POSES: Final[dict[str, dict[str, float]]] = {
    "rest": {},
    "ah, small": {"jaw_open": 0.35, "lips_part": 0.3},
    "aa": {"jaw_open": 0.9, "lips_part": 0.6},
    "ee": {"jaw_open": 0.12, "wide": 0.9, "lips_part": 0.7},
    "eh": {"jaw_open": 0.45, "lips_part": 0.4, "wide": 0.4},
    "oo": {"pucker": 1.0, "jaw_open": 0.1, "lips_part": 0.25},
    "oh": {"pucker": 0.7, "jaw_open": 0.5, "lips_part": 0.3},
    "m b p": {"press": 1.0},
    "f v": {"lower_tuck": 1.0},
    "smile": {"smile": 1.0},
    "pucker, closed": {"pucker": 1.0},
    "blink 1/4": {"blink_right": 0.25, "blink_left": 0.25},
    "blink 1/2": {"blink_right": 0.5, "blink_left": 0.5},
    "blink 3/4": {"blink_right": 0.75, "blink_left": 0.75},
    "blink": {"blink_right": 1.0, "blink_left": 1.0},
    "gaze left": {"gaze_x": -1.0},
    "gaze right": {"gaze_x": 1.0},
    "brows up": {"brow_raise": 1.0},
    "furrow": {"brow_furrow": 1.0},
    "yaw +5": {"yaw": 5.0},
    "yaw -5": {"yaw": -5.0},
    "pitch +5": {"pitch": 5.0},
    "pitch -5": {"pitch": -5.0},
    "roll +6": {"roll": 6.0},
    "all at once": {"yaw": 4.0, "pitch": -3.0, "roll": 3.0, "jaw_open": 0.7, "lips_part": 0.4, "brow_raise": 0.6},
}
ANGLES: Final = ("pitch", "yaw", "roll")
COLUMNS: Final = 6
TILE: Final = 384
TALKING_FRAMES: Final = 10


def pose_motion(pose: Mapping[str, float]) -> torch.Tensor:
    """Action values and angles in degrees -> motion float32 (1, 265)."""
    actions = torch.zeros(1, len(ACTIONS))
    angles = torch.zeros(1, 3)
    for name, value in pose.items():
        if name in ANGLES:
            angles[0, ANGLES.index(name)] = value
        else:
            actions[0, ACTION_INDEX[name]] = value
    return pack_motion(angles, torch.zeros(1, 3), actions_to_exp(actions))


def make_sheet(avatar: Avatar) -> U8:
    """The source, every pose and some consecutive frames of talking; uint8 (h, w, 3), RGB."""
    renderer = MeshRenderer("cpu")
    crop = np.ascontiguousarray(avatar.tensors["crop_rgb"], dtype=np.uint8)
    face = renderer.prepare(crop, np.ascontiguousarray(avatar.tensors["landmarks"], dtype=np.float32))
    poses = torch.cat([pose_motion(pose) for pose in POSES.values()])
    frames = renderer.render(face, torch.cat([poses, talking_motion(TALKING_FRAMES)])).numpy()
    names = ["source", *POSES, *(f"talking {i}" for i in range(TALKING_FRAMES))]
    tiles = [_tile(picture, name) for picture, name in zip([crop, *frames], names, strict=True)]
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % COLUMNS)
    rows = [np.concatenate(tiles[i : i + COLUMNS], axis=1) for i in range(0, len(tiles), COLUMNS)]
    return np.concatenate(rows)


def _tile(picture: U8, name: str) -> U8:
    tile = np.asarray(cv2.resize(picture, (TILE, TILE), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    for colour, width in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(tile, name, (8, 22), cv2.FONT_HERSHEY_SIMPLEX, 0.6, colour, width, cv2.LINE_AA)
    return tile


def main(arguments: list[str] | None = None) -> int:
    """Write the sheet; 0 when written, 2 when the input or the place is unusable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sheet", type=Path, help="PNG or JPEG to write, e.g. sheet.png")
    parser.add_argument("--portrait", type=Path, help="a photo instead of the default presenter")
    options = parser.parse_args(arguments)
    try:
        avatar = default_avatar() if options.portrait is None else register_file(options.portrait, load_face_mesh())
        written = cv2.imwrite(str(options.sheet), cv2.cvtColor(make_sheet(avatar), cv2.COLOR_RGB2BGR))
    except (LiveAnchorError, OSError, cv2.error) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if written else 2


if __name__ == "__main__":
    sys.exit(main())
