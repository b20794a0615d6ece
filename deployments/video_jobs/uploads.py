"""Speech and portraits of video jobs, kept until the job is made: a folder, or any fsspec URI."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from deployments.video_jobs.errors import JobStoreError
from engines.weights.home import liveanchor_home
from kernels.errors import first_line

AUDIO: Final = "audio"
PORTRAIT: Final = "portrait"
_NAME: Final = re.compile(r"(video_[0-9a-f]+)\.(audio|portrait)")


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

    def older_than(self, age_s: float) -> tuple[str, ...]:
        """Ids of jobs whose uploads are older than so many seconds, each once.

        Raises:
            JobStoreError: The place does not answer.
        """
        newest = self._wall_clock() - age_s
        found: dict[str, None] = {}
        with self._reaching():
            if not self._fs.exists(self._root):
                return ()
            for entry in self._fs.ls(self._root, detail=True):
                name = _NAME.fullmatch(str(entry["name"]).rpartition("/")[2])
                if name and self._fs.modified(entry["name"]).timestamp() < newest:
                    found[name.group(1)] = None
        return tuple(found)

    def _path(self, job_id: str, kind: str) -> str:
        return f"{self._root}/{job_id}.{kind}"

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobStoreError(self._uri, error.strerror or first_line(error)) from error
