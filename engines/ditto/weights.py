"""The public Ditto checkpoints as a set of weights."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engines.ditto import FAMILY
from engines.weights.sets import HubSource, WeightsEntry


def check_checkpoints(folder: Path) -> tuple[str, ...]:
    """Load every network strictly, read both configurations and open the speech encoder; nothing is said.

    Raises:
        WeightsFileError: A file is missing, damaged, or of another network.
        UnsafePickleError: A configuration asks for more than data.
    """
    from engines.ditto.checkpoints import check_networks
    from engines.ditto.config import load_config
    from engines.ditto.hubert.onnx import Hubert

    check_networks(folder)
    with TemporaryDirectory(prefix="liveanchor-") as cache:  # the folder may belong to another user
        load_config(folder, "offline", Path(cache))
        load_config(folder, "online", Path(cache))
    Hubert(folder)
    return ()


CHECKPOINTS: Final = WeightsEntry(
    name=FAMILY,
    purpose="the family `ditto` (GPU): five LivePortrait-class networks, the LMDM v0.4 and streaming HuBERT",
    licence="Apache-2.0",
    approx_bytes=2_200_000_000,
    source=HubSource(
        repo_id="digital-avatar/ditto-talkinghead",
        revision="main",
        # the InsightFace models that lie next to these are licensed for non-commercial use only: never taken
        allow_patterns=(
            "ditto_cfg/*.pkl",
            "ditto_pytorch/models/*.pth",
            "ditto_pytorch/aux_models/hubert_streaming_fix_kv.onnx",
            "ditto_pytorch/aux_models/landmark203.onnx",
            "ditto_pytorch/aux_models/face_landmarker.task",
        ),
    ),
    check=check_checkpoints,
)
