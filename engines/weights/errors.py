"""Typed errors of everything that downloads, checks or imports weights."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class WeightsError(LiveAnchorError):
    """Weights are not usable.

    Args:
        name: Name in the registry.
        detail: One sentence: what is wrong and what to do.
    """

    code = "weights"

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        """Say in one line: which weights, and the sentence."""
        return f"weights {self.name}: {self.detail}"


class WeightsDownloadError(WeightsError):
    """A download did not happen: offline, refused, or the file is not on the index."""

    code = "weights_download"
    retryable = True


class WeightsChecksumError(WeightsError):
    """Files arrived or lie there, but they are not the ones that were meant."""

    code = "weights_checksum"


class WeightsStorageError(WeightsError):
    """The data folder cannot be written: no space, no permission, or another process holds the lock."""

    code = "weights_storage"
    retryable = True
