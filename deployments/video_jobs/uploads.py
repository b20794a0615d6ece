"""Speech and portraits of video jobs, kept until the job is made: a folder, or any fsspec URI."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from deployments.video_jobs.errors import JobStoreError
from engines.weights.home import liveanchor_home
from kernels.errors import first_line

AUDIO: Final = "audio"
PORTRAIT: Final = "portrait"
_NAME: Final = re.compile(r"(video_[0-9a-f]+)\.(audio|portrait)")


class Upload(NamedTuple):
    """What came with one job: its size in bytes, and the seconds since the last of it came."""

    size_bytes: int
    age_s: float


class JobUploads:
    """Keeps what came with jobs. Safe to share between threads and processes.

    Args:
        uri: A folder that all nodes mount, an fsspec URI, or empty for LIVEANCHOR_HOME.
        wall_clock: Gives seconds since the epoch.
    """

    def __init__(self, uri: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._uri = uri or str(liveanchor_home() / "uploads")
        self._wall_clock = wall_clock
        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(self._uri)

    def write(self, job_id: str, kind: str, data: bytes) -> None:
        """Keep a file; it is on the disk when this returns, or whole in the object store.

        Raises:
            JobStoreError: It cannot be kept.
        """
        with self._reaching():
            self._fs.makedirs(self._root, exist_ok=True)
            path = self._path(job_id, kind)
            if isinstance(self._fs, LocalFileSystem):
                with Path(path).open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            else:
                self._fs.pipe_file(path, data)

    def read(self, job_id: str, kind: str) -> bytes:
        """Read a file.

        Raises:
            JobStoreError: It is not there, or cannot be read.
        """
        with self._reaching():
            data: bytes = self._fs.cat_file(self._path(job_id, kind))
        return data

    def remove(self, job_id: str) -> None:
        """Remove what came with a job; does nothing where nothing is there.

        Raises:
            JobStoreError: The place does not answer.
        """
        for kind in (AUDIO, PORTRAIT):
            with self._reaching():
                try:
                    self._fs.rm_file(self._path(job_id, kind))
                except FileNotFoundError:
                    continue

    def has(self, job_id: str, kind: str) -> bool:
        """Whether a file is there.

        Raises:
            JobStoreError: The place does not answer.
        """
        with self._reaching():
            return bool(self._fs.exists(self._path(job_id, kind)))

    def there(self) -> dict[str, Upload]:
        """What is there, by the id of its job.

        Raises:
            JobStoreError: The place does not answer.
        """
        found: dict[str, Upload] = {}
        with self._reaching():
            if not self._fs.exists(self._root):
                return {}
            self._fs.invalidate_cache(self._root)
            for entry in self._fs.ls(self._root, detail=True):
                if not (name := _NAME.fullmatch(str(entry["name"]).rpartition("/")[2])):
                    continue
                before = found.get(name.group(1), Upload(0, math.inf))
                try:
                    age_s = self._wall_clock() - self._fs.modified(entry["name"]).timestamp()
                except FileNotFoundError:  # it has gone meanwhile
                    continue
                size = before.size_bytes + int(entry["size"] or 0)
                found[name.group(1)] = Upload(size, min(before.age_s, age_s))
        return found

    def _path(self, job_id: str, kind: str) -> str:
        return f"{self._root}/{job_id}.{kind}"

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobStoreError(self._uri, error.strerror or first_line(error)) from error
