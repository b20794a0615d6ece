"""Typed errors of everything about TensorRT engines."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class EngineError(LiveAnchorError):
    """An engine cannot be made or used.

    Args:
        engine: Its name.
        detail: One sentence: what is wrong and what to do.
    """

    code = "engine"

    def __init__(self, engine: str, detail: str) -> None:
        super().__init__(engine, detail)
        self.engine = engine
        self.detail = detail

    def __str__(self) -> str:
        """Say in one line: which engine, and the sentence."""
        return f"engine {self.engine}: {self.detail}"


class EngineExportError(EngineError):
    """A network does not become an ONNX graph that TensorRT may have."""

    code = "engine_export"


class EngineBuildError(EngineError):
    """TensorRT does not parse or build the graph."""

    code = "engine_build"


class EngineRunError(EngineError):
    """A built engine cannot be loaded or run here."""

    code = "engine_run"


class EngineOffError(EngineError):
    """An engine runs, and its numbers are not the network's: it must not serve."""

    code = "engine_off"


class EngineCacheError(EngineError):
    """The folder of engines cannot be read or written, or another process holds its lock for too long."""

    code = "engine_cache"
    retryable = True


class TensorRtMissingError(LiveAnchorError):
    """No TensorRT library can be used here.

    Args:
        reason: What was looked for and what was found.
        advice: What to install or do.
    """

    code = "tensorrt_missing"

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        """Say it in one line."""
        return f"TensorRT cannot be used: {self.reason}; {self.advice}"


class UnknownEngineError(InvalidInputError):
    """No engine has this name."""

    code = "unknown_engine"
