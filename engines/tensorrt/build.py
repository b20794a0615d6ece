"""ONNX -> TensorRT plan: strongly typed, an optimisation profile per range of batches, a bounded workspace.

Types are the graph's own: nothing is lowered behind its back. What belongs to a build and changes its result is in
`BuildSettings.key`, so that a cached plan is used for exactly the settings that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from engines.tensorrt.errors import EngineBuildError
from engines.tensorrt.library import Library
from engines.tensorrt.spec import EngineSpec
from engines.tensorrt.target import Target
from kernels.errors import InvalidInputError

Progress = Callable[[str, int, int], None]
"""Phase, steps done, steps in all."""
_MIB: Final = 2**20
_MESSAGES: Final = 5


@dataclass(frozen=True)
class BuildSettings:
    """How plans are built.

    Attributes:
        workspace_mib: Scratch memory that a layer's algorithm may use, 16 to 65536.
        optimisation_level: 0 (fast build) to 5 (fast engine).
        aux_streams: Streams that an engine may use in addition to the caller's; 0 keeps every launch on the caller's.
    """

    workspace_mib: int = 4096
    optimisation_level: int = 3
    aux_streams: int = 0

    def __post_init__(self) -> None:
        for field, value, low, high in (
            ("workspace_mib", self.workspace_mib, 16, 65536),
            ("optimisation_level", self.optimisation_level, 0, 5),
            ("aux_streams", self.aux_streams, 0, 7),
        ):
            if not low <= value <= high:
                raise InvalidInputError(field, str(value), f"{low} to {high}")

    def key(self, profiles: Sequence[Profile], *, tf32: bool) -> dict[str, object]:
        """Everything that decides the result, as plain values."""
        shapes = [
            {name: [list(size) for size in sizes] for name, sizes in sorted(profile.items())} for profile in profiles
        ]
        return {**asdict(self), "profiles": shapes, "tf32": tf32, "strongly_typed": True}


Profile = Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
"""Input -> its smallest, best and largest shape."""


def profiles_of(spec: EngineSpec) -> tuple[Profile, ...]:
    """The spec's ranges of batches, in their order: an engine's profiles are chosen by it."""
    return tuple(
        {port.name: (port.sized(least), port.sized(best), port.sized(most)) for port in spec.inputs}
        for least, best, most in spec.tuned
    )


def build_plan(
    engine: str,
    onnx: bytes | Path,
    profiles: Sequence[Profile],
    settings: BuildSettings,
    library: Library,
    target: Target,
    progress: Progress | None = None,
    *,
    tf32: bool = False,
) -> bytes:
    """Parse and build.

    Args:
        engine: Name for messages.
        onnx: The graph's bytes; or a file, which may keep its weights in files next to it.
        profiles: Shapes of every input, for each range of batches.
        settings: See `BuildSettings`.
        library: What builds.
        target: What for.
        progress: Told how far it is.
        tf32: Whether float32 products may be rounded to TF32.

    Returns:
        The serialized plan.

    Raises:
        EngineBuildError: The graph cannot be parsed or built; the message has the library's own first complaints.
    """
    api = library.api
    log = make_logger(library)
    try:
        builder = api.Builder(log)
        typed = getattr(api.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)  # the only way in later releases
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = api.OnnxParser(network, log)
        parsed = parser.parse(onnx) if isinstance(onnx, bytes) else parser.parse_from_file(str(onnx))
        if not parsed:
            raise EngineBuildError(engine, f"{library.flavour} cannot read the graph: {_complaints(parser, log)}")
        config = _configure(builder, network, profiles, settings, library, target, tf32=tf32)
        monitor = _make_monitor(library, progress)
        if monitor is not None:
            config.progress_monitor = monitor
        plan = builder.build_serialized_network(network, config)
    except (RuntimeError, TypeError, ValueError) as error:
        raise EngineBuildError(engine, f"{library.flavour} fails: {str(error)[:300]}") from error
    if plan is None:
        raise EngineBuildError(engine, f"{library.flavour} cannot build for {target}: {log.summary()}")
    return bytes(plan)


def make_logger(library: Library) -> Any:
    """A logger of the library that keeps errors for messages, and says nothing itself."""

    class Log(library.api.ILogger):  # type: ignore[misc, name-defined]  # the base is known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if int(severity) <= int(library.api.ILogger.Severity.ERROR) and len(self.errors) < _MESSAGES:
                self.errors.append(" ".join(message.split())[:300])

        def summary(self) -> str:
            return "; ".join(self.errors) or "it gives no reason"

    return Log()


def _configure(
    builder: Any,
    network: Any,
    profiles: Sequence[Profile],
    settings: BuildSettings,
    library: Library,
    target: Target,
    *,
    tf32: bool,
) -> Any:
    api = library.api
    config = builder.create_builder_config()
    config.set_memory_pool_limit(api.MemoryPoolType.WORKSPACE, settings.workspace_mib * _MIB)
    config.builder_optimization_level = settings.optimisation_level
    config.max_aux_streams = settings.aux_streams
    if tf32:
        config.set_flag(api.BuilderFlag.TF32)
    else:
        config.clear_flag(api.BuilderFlag.TF32)
    if library.portable:
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(api.ComputeCapability, target.capability.replace("sm_", "SM")), 0)
    for profile in profiles:
        shapes = builder.create_optimization_profile()
        for index in range(network.num_inputs):
            name = network.get_input(index).name
            if name not in profile:
                raise ValueError(f"the graph has an input {name!r} that the profile does not know")
            shapes.set_shape(name, *profile[name])
        config.add_optimization_profile(shapes)
    return config


def _complaints(parser: Any, log: Any) -> str:
    found = []
    for index in range(min(parser.num_errors, _MESSAGES)):
        error = parser.get_error(index)
        found.append(f"{error.node_operator() or 'graph'} {error.node_name()}: {error.desc()}")
    return "; ".join(found) or str(log.summary())


def _make_monitor(library: Library, progress: Progress | None) -> Any:
    base = getattr(library.api, "IProgressMonitor", None)
    if progress is None or base is None:
        return None
    tell: Progress = progress

    class Monitor(base):  # type: ignore[misc, valid-type]  # the base is known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.steps: dict[str, int] = {}

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            self.steps[phase] = steps
            tell(phase, 0, steps)

        def step_complete(self, phase: str, step: int) -> bool:
            tell(phase, min(step + 1, self.steps.get(phase, step + 1)), self.steps.get(phase, step + 1))
            return True

        def phase_finish(self, phase: str) -> None:
            tell(phase, self.steps.get(phase, 1), self.steps.pop(phase, 1))

    return Monitor()
