"""The way in for a stage: a network in, a verified TensorRT runtime out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
import torch
from torch import Tensor, nn

from engines.code_digest import code_sha256
from engines.tensorrt.build import BuildSettings, Progress, build_plan, profiles_of
from engines.tensorrt.cache import EngineCache, EngineKey, make_key
from engines.tensorrt.export import OPSET, Graph, export
from engines.tensorrt.library import Flavour, Library, find_library
from engines.tensorrt.runtime import TensorRtRuntime
from engines.tensorrt.spec import EngineSpec
from engines.tensorrt.target import Target, choose_target
from engines.tensorrt.verify import Agreement, verify
from engines.weights.file import tensors_sha256

_log = structlog.get_logger(__name__)
_EXPORT_SCHEMA: Final = 1


@dataclass(frozen=True)
class EngineSettings:
    """How engines are found and made.

    Attributes:
        flavour: Library; None takes the one that fits.
        build: How they are built.
        folder: Folder of the cache; None means `engines` in the data folder.
        device: CUDA device.
    """

    flavour: Flavour | None = None
    build: BuildSettings = field(default_factory=BuildSettings)
    folder: Path | None = None
    device: str = "cuda"


@dataclass(frozen=True)
class Plan:
    """A built engine in memory.

    Attributes:
        spec: What it runs.
        data: Serialized.
        digest: Digest of its key in the cache.
        built: True when it was built now, False when it lay in the cache.
    """

    spec: EngineSpec
    data: bytes
    digest: str
    built: bool


def load_or_build(
    spec: EngineSpec,
    module: nn.Module,
    example_inputs: tuple[Tensor, ...] | None = None,
    settings: EngineSettings | None = None,
    progress: Progress | None = None,
) -> TensorRtRuntime:
    """An engine of a network, from the cache or built now (minutes on some cards), verified against the network.

    Args:
        spec: What goes in and out.
        module: The float32 network. Not changed.
        example_inputs: What it is verified with, e.g. from a real window; None: random values of the spec.
        settings: See `EngineSettings`.
        progress: Told how far a build is.

    Raises:
        TensorRtMissingError: No library, or none that runs on this card.
        EngineExportError, EngineBuildError, EngineRunError, EngineCacheError: As their names say.
        EngineOffError: The engine does not give the network's numbers; it must not serve.
    """
    settings = settings or EngineSettings()
    library = find_library(settings.flavour)
    target = choose_target(library, device=torch.device(settings.device).index or 0)
    plan = find_plan(spec, module, library, target, settings, progress)
    runtime = TensorRtRuntime(spec, plan.data, library, settings.device)
    found = verify(spec, runtime.run_all, module, example_inputs, settings.device)
    _log.info(
        "engine ready", engine=spec.name, library=library.flavour, target=str(target), built=plan.built, **_said(found)
    )
    return runtime


def find_plan(
    spec: EngineSpec,
    module: nn.Module,
    library: Library,
    target: Target,
    settings: EngineSettings,
    progress: Progress | None = None,
) -> Plan:
    """The plan of a network, from the cache or built now; needs no GPU where the library builds without one.

    Raises:
        EngineExportError, EngineBuildError, EngineCacheError: As their names say.
    """
    cache = EngineCache(settings.folder)
    key, graph = _key_of(spec, module, library, target, settings, cache)

    def build() -> bytes:
        made = graph or export(spec, module)
        return build_plan(spec.name, made.onnx, profiles_of(spec), settings.build, library, target, progress)

    data, built = cache.read_or_build(key, build)
    return Plan(spec, data, key.digest, built)


def cached_plan(
    spec: EngineSpec, module: nn.Module, library: Library, target: Target, settings: EngineSettings
) -> Plan | None:
    """The plan of a network where it lies in the cache, undamaged; nothing is built.

    Raises:
        EngineExportError: The network does not export.
    """
    cache = EngineCache(settings.folder)
    if not cache.entries():
        return None
    key, _ = _key_of(spec, module, library, target, settings, cache)
    data = cache.read(key)
    return None if data is None else Plan(spec, data, key.digest, False)


def _key_of(
    spec: EngineSpec, module: nn.Module, library: Library, target: Target, settings: EngineSettings, cache: EngineCache
) -> tuple[EngineKey, Graph | None]:
    """The key, and the graph where it had to be exported for it."""
    source = source_digest(spec, module)
    graph: Graph | None = None
    digest = cache.known_graph(source)
    if digest is None:
        graph = export(spec, module)
        digest = hashlib.sha256(graph.onnx).hexdigest()
        cache.remember_graph(source, digest)
    build = settings.build.key(profiles_of(spec), tf32=False)
    return make_key(spec.name, digest, library, target, build), graph


def source_digest(spec: EngineSpec, module: nn.Module) -> str:
    """Everything that an export depends on, without exporting: weights, options, spec, this project's code, and the exporter."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    parts = [str(_EXPORT_SCHEMA), str(OPSET), repr(spec), torch.__version__, code_sha256(), tensors_sha256(tensors)]
    for name, part in module.named_modules():
        options = {key: value for key, value in sorted(vars(part).items()) if _is_option(key, value)}
        parts.append(f"{name} {type(part).__module__}.{type(part).__qualname__} {options} {part.extra_repr()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_option(key: str, value: object) -> bool:
    return not key.startswith("_") and key != "training" and isinstance(value, bool | int | float | str | tuple)


def _said(found: Agreement) -> dict[str, object]:
    return {"relative_error": found.relative_error, "cosine": found.cosine, "psnr_db": found.psnr_db}
