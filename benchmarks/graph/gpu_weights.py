"""A Ditto checkpoint folder in the public layout, made here: real shapes, no trained value.

Speed does not depend on the values of weights, but half precision overflows under careless ones: networks get the documented
formula of the golden tests, the speech encoder (HuBERT-large's shape, 24 layers of 1024) torch's own start.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from engines.ditto.checkpoints import HUBERT_FILE, NETWORK_FILES
from engines.networks.ditto.hubert_encoder import HubertEncoder
from engines.weights.record import WeightsRecord, describe_file, write_record

LAST_LAYER: Final = "conv_img."
PALE: Final = 0.05
"""Under the formula alone pictures are coloured noise at 8 Mbit/s; so scaled they take 2."""
LIVE_STEPS: Final = 10
FILE_STEPS: Final = 50


def write_checkpoints(folder: Path, *, small: bool = False) -> Path:
    """Write the folder, 2 GB, with the record that `weights pull` leaves, so that no process hashes it again.

    `small` takes one convolution for the encoder and two steps, for a dry run on a CPU.
    """
    from benchmarks.ditto import checkpoint_folder as ditto_support
    from benchmarks.ditto.formula import filled

    torch.manual_seed(0)
    for name in NETWORK_FILES:
        ditto_support.write_network(folder, name, pale(filled(name).state_dict()) if name == "decoder" else None)
    if small:
        ditto_support.write_hubert(folder)
    else:
        ditto_support.export_encoder(HubertEncoder(), folder / HUBERT_FILE)
    live, files = (2, 2) if small else (LIVE_STEPS, FILE_STEPS)
    online = {"online_mode": True, "overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": [0, 202], "emo": [[4]]}
    blink = np.zeros((15, 63), np.float32)
    ditto_support.write_config(folder, "online", {**online, "sampling_timesteps": live, "delta_eye_arr": blink})
    ditto_support.write_config(folder, "offline", {"sampling_timesteps": files, "emo": 4})
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    known = {name: describe_file(folder / name) for name in names}
    record = WeightsRecord(name="ditto", source="made here", licence="none", pulled_at=datetime.now(UTC), files=known)
    write_record(folder, record)
    return folder


def pale(decoder: dict[str, Tensor]) -> dict[str, Tensor]:
    """The decoder's weights with its last layer scaled by `PALE`: pictures that cost an H.264 encoder about what a face does."""
    return {key: value * PALE if key.startswith(LAST_LAYER) else value for key, value in decoder.items()}
