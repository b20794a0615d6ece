"""Which way of running a network won before, on this GPU with this code and these weights: remembered on disk.

To find it out costs a start some seconds and the memory of every way. A verdict is one small JSON file: the way, and a part of the
reference's answer, against which the way is checked again before it serves. A verdict that cannot be read, does not fit or does
not hold is none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import structlog
import torch
from torch import Tensor, nn

from engines.code_digest import code_sha256
from engines.weights.file import tensors_sha256
from engines.weights.home import liveanchor_home
from kernels.errors import first_line

SCHEMA: Final = 1
KEPT_VALUES: Final = 1024
"""Of an answer: enough to tell a way whose numbers are off."""
_LARGEST_BYTES: Final = 131_072
_PACKAGES: Final = ("triton", "tensorrt", "tensorrt-cu13", "tensorrt-rtx", "onnxruntime", "onnxruntime-gpu")
_DRIVER: Final = Path("/proc/driver/nvidia/version")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Verdict:
    """What was found out.

    Attributes:
        runtime: Way that won.
        answer: Every k-th value of the reference's answer to the first input, at most `KEPT_VALUES`, float32.
    """

    runtime: str
    answer: Tensor


class Verdicts:
    """Remembers the verdict about one network on one device.

    Args:
        stage: Name of the stage.
        networks: The networks with their weights.
        device: Torch device name.
        ways: Names of the ways that could be tried.
        folder: Where verdicts lie; None: `LIVEANCHOR_HOME/runtimes`.
    """

    def __init__(
        self, stage: str, networks: Sequence[nn.Module], device: str, ways: Sequence[str], folder: Path | None = None
    ) -> None:
        self._path = (folder or liveanchor_home() / "runtimes") / f"{_digest(stage, networks, device, ways)}.json"
        self._stage = stage

    def find(self) -> Verdict | None:
        """The verdict; None where there is none that can be read."""
        try:
            with self._path.open("rb") as file:
                known = json.loads(file.read(_LARGEST_BYTES))
            answer = torch.tensor([float(value) for value in known["answer"]], dtype=torch.float32)
            return Verdict(str(known["runtime"]), answer) if len(answer) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("verdict unreadable", stage=self._stage, reason=first_line(error, named=True))
            return None

    def keep(self, verdict: Verdict) -> None:
        """Remember it, at once or not at all; a folder that cannot be written costs the next start its seconds."""
        if not bool(verdict.answer.isfinite().all()):
            return
        known = {"schema": SCHEMA, "stage": self._stage, "runtime": verdict.runtime, "answer": verdict.answer.tolist()}
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_text(json.dumps(known), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            _log.warning("verdict not kept", stage=self._stage, reason=first_line(error, named=True))

    def forget(self) -> None:
        """The verdict does not hold; one that cannot be removed is checked again at the next start."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("verdict not removed", stage=self._stage, reason=first_line(error, named=True))


def part_of(answer: Tensor) -> Tensor:
    """Every k-th value of an answer, float32 (n,) on the CPU, n at most `KEPT_VALUES`."""
    flat = answer.detach().float().reshape(-1)
    return flat[:: max(1, -(-len(flat) // KEPT_VALUES))].cpu()


def _digest(stage: str, networks: Sequence[nn.Module], device: str, ways: Sequence[str]) -> str:
    """Over everything that the verdict depends on."""
    parts: list[object] = [SCHEMA, stage, sorted(ways), torch.__version__, torch.version.cuda, code_sha256()]
    if torch.device(device).type == "cuda":
        parts += [torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)]
    parts += [_DRIVER.read_text(encoding="utf-8") if _DRIVER.is_file() else "", *map(_version, _PACKAGES)]
    for network in networks:
        parts.append(tensors_sha256({**dict(network.named_parameters()), **dict(network.named_buffers())}))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
