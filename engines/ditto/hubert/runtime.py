"""HuBERT's ways of running: the public file by onnxruntime, or the torch module that is fed from it, under CUDA graphs.

To find the fastest takes the file's own answers, by onnxruntime on the CPU, and some ten seconds; which one won on this GPU is
remembered (`engines.runtimes.verdicts`), and then it alone is made and checked against a part of those answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import structlog
import torch
from torch import Tensor

from engines.ditto.checkpoints import HUBERT_FILE
from engines.ditto.hubert.file import read_hubert
from engines.ditto.hubert.graph import MAX_ERROR, WAYS, hubert_of, probes, verified_hubert
from engines.ditto.hubert.onnx import WINDOW_SAMPLES, Hubert
from engines.ditto.version import AUDIO_FILES, files_version
from engines.runtimes.choice import RuntimeRefusedError, fastest, median_ms, remembered_way, said_ms
from engines.runtimes.kinds import RuntimeKind
from engines.runtimes.verdicts import Verdict, Verdicts, part_of
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, first_line

EncodeAll = Callable[[Sequence[F32]], list[F32]]
STAGE: Final = "ditto audio_features"
_TIMED_CALLS: Final = 5
_TIMED_WINDOWS: Final = (1, 8)
_log = structlog.get_logger(__name__)


def hubert_runtime(folder: Path, device: str = "cpu", threads: int = 1, wanted: RuntimeKind = "auto") -> EncodeAll:
    """What encodes windows of all sessions.

    Args:
        folder: Checkpoint folder.
        device: Torch device name.
        threads: CPU threads of one call of onnxruntime.
        wanted: `eager` is onnxruntime (on the GPU where it has its CUDA provider, else on the CPU); `compiled` the torch module and
            `tensorrt` an engine of the file, both of which must give the file's rows; `auto` on a GPU the fastest that works.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is not installed.
        WeightsFileError: The file is missing, damaged, or not this encoder.
        RuntimeRefusedError: `compiled` or `tensorrt` where it cannot be used; the text says why.
    """
    if wanted in ("compiled", "tensorrt") and device == "cpu":
        raise RuntimeRefusedError(f"{STAGE}: runtime {wanted} does not exist on {device}; it has eager")
    memory = _memory(folder, device) if wanted == "auto" else None
    if memory is not None:
        made = {way: partial(_made, way, folder, device, threads) for way in ("eager", "tensorrt", *WAYS)}
        if (known := remembered_way(memory, made, _answer, STAGE, MAX_ERROR)) is not None:
            return known
    hubert = Hubert(folder, device, threads)
    module_way = ""
    ways: dict[str, EncodeAll] = {"eager": hubert.encode_all}
    reasons: dict[str, str] = {}

    def compiled() -> EncodeAll:
        nonlocal module_way
        module_way, graphed = verified_hubert(lambda: read_hubert(folder / HUBERT_FILE), hubert.encode_all, device)
        graphed.prepare()
        return graphed.encode_all

    makers: dict[str, Callable[[], EncodeAll]] = {"compiled": compiled, "tensorrt": lambda: _tensorrt(folder, device)}
    for name, make in makers.items() if device != "cpu" else ():
        if wanted not in ("auto", name):
            continue
        try:
            ways[name] = make()
        except (LiveAnchorError, RuntimeError) as error:  # a file of another exporter, no library, too little memory
            reasons[name] = first_line(error, named=True)
            if wanted == name:
                raise RuntimeRefusedError(f"{STAGE}: runtime {name} cannot be used here: {reasons[name]}") from error
    times = (
        {name: [_call_ms(encode_all, count) for count in _TIMED_WINDOWS] for name, encode_all in ways.items()}
        if len(ways) > 1 and wanted not in ways
        else {}
    )
    chosen = wanted if wanted in ways else fastest(times) if times else "eager"
    why = (
        "the fastest that gives the file's rows here"
        if times
        else "runs on the CPU"
        if device == "cpu"
        else "alone works"
    )
    said = {**{name: said_ms(found) for name, found in times.items()}, **reasons}
    idle_gpu = device != "cpu" and chosen == "eager" and "CUDA" not in hubert.provider
    if idle_gpu:
        said["consequence"] = "speech is encoded on the CPU, 100 ms and more for 200 ms of it, while the GPU waits"
    (_log.warning if idle_gpu else _log.info)(
        "runtime chosen",
        stage=STAGE,
        runtime=chosen,
        why="named" if wanted == chosen else why,
        onnxruntime=hubert.provider,
        **said,
    )
    if memory is not None and times:  # what alone works may not be alone next time
        memory.keep(Verdict(module_way if chosen == "compiled" else chosen, _answer(hubert.encode_all)))
    return ways[chosen]


def _memory(folder: Path, device: str) -> Verdicts | None:
    """What remembers; None without a GPU. The weights are the file, so its digest stands for them."""
    if device == "cpu" or not torch.cuda.is_available():
        return None
    return Verdicts(f"{STAGE}, {files_version(folder, AUDIO_FILES)}", [], device, ["eager", "tensorrt", *WAYS])


def _made(way: str, folder: Path, device: str, threads: int) -> EncodeAll:
    if way == "eager":
        return Hubert(folder, device, threads).encode_all
    if way == "tensorrt":
        return _tensorrt(folder, device)
    graphed = hubert_of(lambda: read_hubert(folder / HUBERT_FILE), way, device)
    graphed.prepare()
    return graphed.encode_all


def _answer(encode_all: EncodeAll) -> Tensor:
    return part_of(torch.from_numpy(np.stack(encode_all(probes()))))


def _tensorrt(folder: Path, device: str) -> EncodeAll:
    from engines.ditto.hubert.engine import EngineHubert, load_hubert
    from engines.tensorrt.load import EngineSettings

    runtime = load_hubert(folder, EngineSettings(device=device))
    return EngineHubert(runtime, runtime.spec.max_batch).encode_all


def _call_ms(encode_all: EncodeAll, count: int) -> float:
    windows = [np.full(WINDOW_SAMPLES, 1e-3, np.float32)] * count
    encode_all(windows)
    return median_ms(lambda: encode_all(windows), _TIMED_CALLS)
