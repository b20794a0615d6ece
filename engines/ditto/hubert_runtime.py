"""HuBERT's ways of running: the public file by onnxruntime, or the torch module that is fed from it, under CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from engines.ditto.checkpoints import HUBERT_FILE
from engines.ditto.hubert import WINDOW_SAMPLES, Hubert
from engines.ditto.hubert_file import read_hubert
from engines.ditto.hubert_graph import verified_hubert
from engines.runtime_choice import RuntimeKind, RuntimeRefusedError
from kernels.errors import LiveAnchorError

F32 = NDArray[np.float32]
EncodeAll = Callable[[Sequence[F32]], list[F32]]
STAGE: Final = "ditto audio_features"
_TIMED_CALLS: Final = 5
_log = structlog.get_logger(__name__)


def hubert_runtime(folder: Path, device: str = "cpu", threads: int = 1, wanted: RuntimeKind = "auto") -> EncodeAll:
    """What encodes windows of all sessions.

    Args:
        folder: Checkpoint folder.
        device: Torch device name.
        threads: CPU threads of one call of onnxruntime.
        wanted: `eager` is onnxruntime (on the GPU where it has its CUDA provider, else on the CPU); `compiled` the torch module,
            which must give the file's rows; `auto` on a GPU the faster of the two that work.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is not installed.
        WeightsFileError: The file is missing, damaged, or not this encoder.
        RuntimeRefusedError: `tensorrt`, or `compiled` where the file is not the module or there is no GPU.
    """
    if wanted == "tensorrt" or (wanted == "compiled" and device == "cpu"):
        raise RuntimeRefusedError(
            f"{STAGE}: runtime {wanted} does not exist on {device}; it has eager and, on a GPU, compiled"
        )
    hubert = Hubert(folder, device, threads)
    if wanted == "eager" or device == "cpu":
        _log.info("runtime chosen", stage=STAGE, runtime="eager", why=hubert.provider)
        return hubert.encode_all
    try:
        graphed = verified_hubert(lambda: read_hubert(folder / HUBERT_FILE), hubert.encode_all, device)
    except (LiveAnchorError, RuntimeError) as error:  # a file of another exporter, or a GPU that it does not fit on
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        if wanted == "compiled":
            raise RuntimeRefusedError(f"{STAGE}: runtime compiled cannot be used here: {reason}") from error
        _log.warning("runtime chosen", stage=STAGE, runtime="eager", why=hubert.provider, compiled=reason)
        return hubert.encode_all
    graphed.prepare()
    times = {"eager": _call_ms(hubert.encode_all), "compiled": _call_ms(graphed.encode_all)}
    chosen = "compiled" if wanted == "compiled" else min(times, key=lambda name: times[name])
    _log.info("runtime chosen", stage=STAGE, runtime=chosen, provider=hubert.provider, **times)
    return graphed.encode_all if chosen == "compiled" else hubert.encode_all


def _call_ms(encode_all: EncodeAll) -> float:
    window = np.full(WINDOW_SAMPLES, 1e-3, np.float32)
    encode_all([window])
    times = []
    for _ in range(_TIMED_CALLS):
        began = time.perf_counter()
        encode_all([window])
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times))
