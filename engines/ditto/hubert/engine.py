"""Streaming HuBERT as an engine, from its public ONNX file: float16 products, float32 in and out.

The file has no batch axis in its public export; where another export has a free first axis, the engine takes 1 to 16 windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import structlog
import torch
from torch import Tensor, nn

from engines.ditto import FAMILY
from engines.ditto.checkpoints import HUBERT_FILE, MISSING_FILE, ditto_folder
from engines.ditto.hubert.onnx import INPUT_NAME, ROW_DIM, WINDOW_ROWS, WINDOW_SAMPLES
from engines.ditto.onnx_model import OnnxModel
from engines.runtimes.protocol import Runtime
from engines.tensorrt.build import Progress, build_plan, profiles_of
from engines.tensorrt.cache import EngineCache, make_key
from engines.tensorrt.errors import EngineExportError
from engines.tensorrt.library import Library, find_library
from engines.tensorrt.load import EngineSettings, Plan
from engines.tensorrt.recipes import Kitchen
from engines.tensorrt.runtime import TensorRtRuntime
from engines.tensorrt.spec import BATCH, MAX_BATCH, EngineSpec, Gate, Port
from engines.tensorrt.target import Target, choose_target
from engines.tensorrt.verify import Agreement, verify
from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import ShapeError

HUBERT: Final = f"{FAMILY}/hubert"
_log = structlog.get_logger(__name__)
_FLOAT32_OPERATORS: Final = ("LayerNormalization", "Softmax", "ReduceMean", "Pow", "Sqrt", "GroupNormalization")
"""Sums over many values: half precision ends at 65504."""


@dataclass(frozen=True)
class HubertGraph:
    """HuBERT's file, ready to build.

    Attributes:
        spec: What goes in and out, as the file states it.
        onnx: The graph in float16 with float32 inputs and outputs, weights inside.
    """

    spec: EngineSpec
    onnx: bytes


def read_hubert(path: Path) -> HubertGraph:
    """Read the file, check its signature, convert its products to float16.

    Raises:
        EngineExportError: onnx or onnxruntime is not installed, or the file is not this encoder.
    """
    onnx, half = _import_tools()
    from google.protobuf.message import DecodeError  # comes with onnx

    try:
        model = onnx.load(str(path))
    except (OSError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise EngineExportError(HUBERT, f"{path} is no usable ONNX file ({reason})") from error
    spec = _spec_of(path, model)
    converted = half.convert_float_to_float16(
        model,
        keep_io_types=True,
        disable_shape_infer=True,
        op_block_list=[*half.DEFAULT_OP_BLOCK_LIST, *_FLOAT32_OPERATORS],
    )
    return HubertGraph(spec, converted.SerializeToString(deterministic=True))


def find_hubert_plan(
    path: Path, library: Library, target: Target, settings: EngineSettings, progress: Progress | None = None
) -> Plan:
    """HuBERT's plan, from the cache or built now.

    Raises:
        EngineExportError, EngineBuildError, EngineCacheError: As their names say.
    """
    graph = read_hubert(path)
    profiles = profiles_of(graph.spec)
    digest = hashlib.sha256(graph.onnx).hexdigest()
    key = make_key(HUBERT, digest, library, target, settings.build.key(profiles, tf32=False))

    def build() -> bytes:
        return build_plan(HUBERT, graph.onnx, profiles, settings.build, library, target, progress)

    data, built = EngineCache(settings.folder).read_or_build(key, build)
    return Plan(graph.spec, data, key.digest, built)


def load_hubert(folder: Path | None = None, settings: EngineSettings | None = None) -> TensorRtRuntime:
    """HuBERT's engine, verified against the file in float32: (n, 6480) samples -> (20, 1024) or (n, 20, 1024) rows.

    Args:
        folder: Ditto's checkpoints; None means where `weights pull ditto` puts them.
        settings: See `EngineSettings`.

    Raises:
        TensorRtMissingError, EngineExportError, EngineBuildError, EngineRunError, EngineCacheError, EngineOffError: As for
            `engines.tensorrt.load.load_or_build`.
    """
    return verified_hubert_engine(ditto_folder(folder) / HUBERT_FILE, settings or EngineSettings())[0]


def verified_hubert_engine(path: Path, settings: EngineSettings) -> tuple[TensorRtRuntime, Agreement]:
    """HuBERT's engine and how near it comes to its file; see `load_hubert` for errors."""
    library = find_library(settings.flavour)
    target = choose_target(library, device=torch.device(settings.device).index or 0)
    plan = find_hubert_plan(path, library, target, settings)
    runtime = TensorRtRuntime(plan.spec, plan.data, library, settings.device)
    speech = torch.randn(1, WINDOW_SAMPLES, generator=torch.Generator().manual_seed(0)) * 0.1
    found = verify(plan.spec, runtime.run_all, OnnxReference(path), (speech,), settings.device)
    _log.info("engine ready", engine=HUBERT, library=library.flavour, target=str(target), agreement=str(found))
    return runtime, found


class HubertRecipe:
    """HuBERT as `liveanchor engine` sees it; its public ONNX file states the inputs, and there are no random weights."""

    name = HUBERT
    known_as: Final = {
        "engine": HUBERT,
        "type": "float16",
        "batch": "as its file",
        "what": "speech -> features, from its ONNX file; float32 in and out",
    }

    def plan(self, kitchen: Kitchen, progress: Progress) -> Plan:
        """Implement `engines.tensorrt.recipes.Recipe`."""
        path = self._file(kitchen)
        return find_hubert_plan(path, kitchen.library, kitchen.target, kitchen.settings, progress)

    def compare(self, kitchen: Kitchen) -> tuple[Agreement, bool] | None:
        """Implement `engines.tensorrt.recipes.Recipe`; the engine is built where it is missing, and one that is off is an error."""
        _, agreement = verified_hubert_engine(self._file(kitchen), kitchen.settings)
        return agreement, True

    def _file(self, kitchen: Kitchen) -> Path:
        path = ditto_folder(kitchen.folder) / HUBERT_FILE
        if not path.is_file():
            raise WeightsFileError(str(path), "", MISSING_FILE)
        return path


class EngineHubert:
    """What encodes windows of all sessions, by the engine.

    Args:
        runtime: See `load_hubert`; any runtime of that signature.
        largest: Windows in one call.
    """

    def __init__(self, runtime: Runtime, largest: int) -> None:
        self._runtime = runtime
        self._largest = largest

    def encode_all(self, windows: Sequence[F32]) -> list[F32]:
        """Windows float32 (6480,) -> rows float32 (20, 1024).

        Raises:
            ShapeError: A window of another length.
        """
        for window in windows:
            if window.shape != (WINDOW_SAMPLES,):
                raise ShapeError("window", str(window.shape), f"({WINDOW_SAMPLES},)")
        rows: list[F32] = []
        for start in range(0, len(windows), self._largest):
            group = np.stack(windows[start : start + self._largest])
            made = self._runtime.run(torch.from_numpy(np.ascontiguousarray(group, np.float32)))
            rows.extend(made.float().cpu().numpy().reshape(len(group), WINDOW_ROWS, ROW_DIM))
        return rows


class OnnxReference(nn.Module):
    """The file through onnxruntime on the CPU, in the place of the float32 network."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def forward(self, window: Tensor) -> Tensor:
        """(n, 6480) -> rows, on the CPU."""
        return torch.from_numpy(OnnxModel(self._path).run(np.asarray(window.cpu().numpy(), np.float32))[0])


def _spec_of(path: Path, model: Any) -> EngineSpec:
    inputs, outputs = list(model.graph.input), list(model.graph.output)
    if [value.name for value in inputs] != [INPUT_NAME] or len(outputs) != 1:
        names = [value.name for value in (*inputs, *outputs)]
        raise EngineExportError(HUBERT, f"{path} has the tensors {names}, needed {INPUT_NAME} and one output")
    dims = inputs[0].type.tensor_type.shape.dim
    fixed = [dim.dim_value if dim.HasField("dim_value") else BATCH for dim in dims]
    if len(fixed) != 2 or fixed[1] not in (WINDOW_SAMPLES, BATCH) or fixed[0] not in (1, BATCH):
        raise EngineExportError(HUBERT, f"{path} takes {tuple(fixed)}, needed (1 or free, {WINDOW_SAMPLES})")
    last = outputs[0].type.tensor_type.shape.dim
    if last and last[-1].HasField("dim_value") and last[-1].dim_value != ROW_DIM:
        raise EngineExportError(HUBERT, f"{path} gives rows of {last[-1].dim_value}, needed {ROW_DIM}")
    most = 1 if fixed[0] == 1 else MAX_BATCH
    return EngineSpec(
        name=HUBERT,
        inputs=(Port(INPUT_NAME, (BATCH, WINDOW_SAMPLES), "float32", scale=0.1),),
        outputs=(outputs[0].name,),
        gate=Gate(2e-2, min_cosine=0.9995),
        about="streaming HuBERT: 6480 samples -> 20 rows of 1024",
        best_batch=min(8, most),
        max_batch=most,
    )


def _import_tools() -> tuple[Any, Any]:
    try:
        import onnx
        from onnxruntime.transformers import float16
    except ImportError as error:
        message = f"building it needs {error.name}; install the extra: pip install 'liveanchor[onnx]'"
        raise EngineExportError(HUBERT, message) from error
    return onnx, float16
