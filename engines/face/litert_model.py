"""A tflite model on the CPU through `ai_edge_litert`, imported at first use."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError

DEFAULT_THREADS: Final = 1


class ModelFileError(LiveAnchorError):
    """A model file is missing or is not what its name says.

    Args:
        path: The file.
        reason: What is wrong with it and what to do.
    """

    code = "model_file"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line: the file and what to do."""
        return f"{self.path}: {self.reason}"


class LiteRtModel:
    """A float32 model with one input. Not thread-safe: one instance per thread.

    Args:
        path: The tflite file.
        threads: CPU threads of one call.

    The interpreter starts at the first `run`: a picture that is refused before any network looks at it costs no model, and
    LiteRT's start message on stderr does not stand above the refusal.

    Raises:
        ModelFileError: No such file.
    """

    def __init__(self, path: Path, threads: int = DEFAULT_THREADS) -> None:
        if not path.is_file():
            raise ModelFileError(str(path), "no such file; run `liveanchor weights pull face`")
        self._path = path
        self._threads = threads

    @cached_property
    def _interpreter(self) -> Any:
        from ai_edge_litert.interpreter import Interpreter  # heavy and optional: loaded when a face is really wanted

        try:
            interpreter = Interpreter(model_content=self._path.read_bytes(), num_threads=self._threads)
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelFileError(
                str(self._path), f"not a usable model ({error}); run `liveanchor weights pull face` again"
            ) from error
        return interpreter

    def run(self, batch: F32) -> list[F32]:
        """Run the model.

        Args:
            batch: float32, of the model's input shape.

        Returns:
            Copies of all outputs, in the model's own order.

        Raises:
            ModelFileError: The file cannot be read as a model.
        """
        interpreter = self._interpreter
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ascontiguousarray(batch, np.float32))
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        return [np.array(interpreter.get_tensor(output["index"]), dtype=np.float32) for output in outputs]
