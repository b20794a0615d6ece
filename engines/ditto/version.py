"""Which Ditto weights something was made with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engines.ditto.checkpoints import HUBERT_FILE, MISSING_FILE, NETWORK_FILES
from engines.weights.version import digest_of_files

SOURCE_FILES: Final = tuple(NETWORK_FILES[name] for name in ("appearance_extractor", "motion_extractor"))
"""What an avatar's features and motion depend on."""
MOTION_FILES: Final = (NETWORK_FILES["lmdm"],)
AUDIO_FILES: Final = (HUBERT_FILE,)


def files_version(folder: Path, files: Sequence[str]) -> str:
    """Digest over files of a checkpoint folder, see `engines.weights.version`.

    Raises:
        WeightsFileError: A file is missing.
    """
    return digest_of_files(folder, files, MISSING_FILE)
