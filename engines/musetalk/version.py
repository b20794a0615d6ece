"""Which MuseTalk weights something was made with."""

from __future__ import annotations

from pathlib import Path

from engines.musetalk.checkpoints import MISSING_FILE, VAE_FILES, WHISPER_FILES
from engines.weights.version import digest_of_files


def latents_version(folder: Path) -> str:
    """Digest over what an avatar's latents depend on.

    Raises:
        WeightsFileError: The autoencoder is missing.
    """
    return _version(folder, VAE_FILES)


def speech_version(folder: Path) -> str:
    """Digest over the speech encoder.

    Raises:
        WeightsFileError: It is missing.
    """
    return _version(folder, WHISPER_FILES)


def _version(folder: Path, names: tuple[str, ...]) -> str:
    there = [name for name in names if (folder / name).is_file()] or [names[-1]]
    return digest_of_files(folder, there[:1], MISSING_FILE)
