"""Write trained networks as the family's weights files."""

from __future__ import annotations

import json
from pathlib import Path

from engines.mini import FAMILY
from engines.mini.load import ENCODER_FILE, LMDM_FILE, SPACE_PREFIX
from engines.mini.motion_space import MotionSpace
from engines.networks.lmdm import Lmdm
from engines.networks.mini.speech_encoder import SpeechEncoder
from engines.weights.file import tensors_sha256, write_weights

LAYOUT_VERSION = "1"


def export_encoder(encoder: SpeechEncoder, folder: Path) -> str:
    """Write the encoder; returns its version: layout and the head of the tensors' digest."""
    tensors = encoder.state_dict()
    version = f"{LAYOUT_VERSION}.{tensors_sha256(tensors)[:8]}"
    write_weights(
        folder / ENCODER_FILE,
        tensors,
        family=FAMILY,
        network="mini/speech_encoder",
        config={"row_dim": encoder.row_dim},
        version=version,
    )
    return version


def export_lmdm(lmdm: Lmdm, space: MotionSpace, folder: Path) -> str:
    """Write the motion model with the constants of its motion space; returns its version."""
    tensors = lmdm.state_dict() | {SPACE_PREFIX + key: value for key, value in space.state_dict().items()}
    version = f"{LAYOUT_VERSION}.{tensors_sha256(tensors)[:8]}"
    write_weights(
        folder / LMDM_FILE,
        tensors,
        family=FAMILY,
        network="mini/lmdm",
        config={"cond_dim": lmdm.cond_dim, "seq_frames": lmdm.seq_frames},
        version=version,
    )
    return version


def write_json(path: Path, value: object) -> None:
    """Write pretty JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
