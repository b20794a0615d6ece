"""One tflite model on the CPU through `ai_edge_litert`, imported at first use."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.errors import LiveAnchorError

F32 = NDArray[np.float32]
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
        """One line: the file and what to do."""
        return f"{self.path}: {self.reason}"


class LiteRtModel:
    """A float32 model with one input. Not thread-safe: one instance per thread.

    Args:
        path: The tflite file.
        threads: CPU threads of one call.

    Raises:
        ModelFileError: No such file, or it cannot be read as a model.
    """

    def __init__(self, path: Path, threads: int = DEFAULT_THREADS) -> None:
        if not path.is_file():
            raise ModelFileError(str(path), "no such file; run `liveanchor weights pull face`")
        from ai_edge_litert.interpreter import Interpreter  # heavy and optional: loaded when a face is really wanted

        try:
            self._interpreter = Interpreter(model_content=path.read_bytes(), num_threads=threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelFileError(
                str(path), f"not a usable model ({error}); run `liveanchor weights pull face` again"
            ) from error
        details = self._interpreter.get_input_details()[0]
        self._input = details["index"]
        self._outputs = [output["index"] for output in self._interpreter.get_output_details()]
        self.input_shape: tuple[int, ...] = tuple(int(side) for side in details["shape"])

    def run(self, batch: F32) -> list[F32]:
        """Run the model.

        Args:
            batch: float32 of `input_shape`.

        Returns:
            Copies of all outputs, in the model's own order.
        """
        self._interpreter.set_tensor(self._input, np.ascontiguousarray(batch, dtype=np.float32))
        self._interpreter.invoke()
        return [np.array(self._interpreter.get_tensor(index), dtype=np.float32) for index in self._outputs]
