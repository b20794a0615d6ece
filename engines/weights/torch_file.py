"""Read a `torch.save` file safely: tensors and plain containers only, every fault one clear error."""

from __future__ import annotations

import io
import re
from pathlib import Path
from pickle import UnpicklingError  # noqa: S403 - the name of torch's error; nothing is unpickled here
from typing import Final

import torch

from engines.weights.file import WeightsFileError

_ASKED_FOR: Final = re.compile(r"GLOBAL ([\w.]+)")


def read_torch_file(path: Path, content: bytes | None = None) -> object:
    """What the file holds, on the CPU; mapped into memory where the format allows.

    Args:
        path: The file; it names the content in errors.
        content: Its bytes where they are at hand already, e.g. out of an archive.

    Raises:
        WeightsFileError: Missing, damaged, or it asks for code.
    """
    if content is None and not path.is_file():
        raise WeightsFileError(str(path), "", "no such file")
    try:
        if content is not None:
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        with path.open("rb") as stream:
            is_zip = stream.read(2) == b"PK"
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except UnpicklingError as error:
        named = _ASKED_FOR.search(str(error))  # torch's own advice, to load it unsafely, is not passed on
        reason = f"it asks for {named[1][:100]}" if named else "it is no plain checkpoint"
        raise WeightsFileError(str(path), "", f"is refused: {reason}") from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise WeightsFileError(str(path), "", f"is damaged or cut short ({reason})") from error
