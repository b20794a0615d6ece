"""Built engines on disk: one file per key, written at once or not at all, checked when read.

The key is a SHA-256 over the schema of this cache, the graph with its weights, the library and its version, the card, its compute
capability and the whole build configuration; an engine made of anything else is another entry. A small JSON file next to a plan
says what it is and how it must read; a plan that does not match is no entry and is built again. Nothing is unpickled.
A plan is code for the GPU: the folder belongs to its user alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from engines.tensorrt.errors import EngineCacheError
from engines.tensorrt.library import Library
from engines.tensorrt.target import Target
from engines.weights.home import liveanchor_home

SCHEMA: Final = 1
LARGEST_NOTE: Final = 65_536
MOST_LISTED: Final = 1000
LOCK_TIMEOUT_S: Final = 1800.0
"""A build by another process takes minutes, not longer."""
DEFAULT_BYTES: Final = 20 * 2**30
_NAME: Final = re.compile(r"^[0-9a-f]{64}\.json$")
_GRAPH_NAME: Final = "graph-{}.json"


@dataclass(frozen=True)
class EngineKey:
    """What an engine is made of.

    Attributes:
        engine: Its name, for people; two names with one graph are two entries.
        graph_sha256: SHA-256 of the ONNX file, weights included.
        flavour: Library.
        version: Its version.
        card: GPU, or `any`.
        capability: Compute capability, e.g. `sm_120`.
        build: The whole build configuration, plain values.
    """

    engine: str
    graph_sha256: str
    flavour: str
    version: str
    card: str
    capability: str
    build: Mapping[str, object]

    @property
    def digest(self) -> str:
        """64 lower-case hex digits."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def make_key(
    engine: str, graph_sha256: str, library: Library, target: Target, build: Mapping[str, object]
) -> EngineKey:
    """A key from its parts."""
    return EngineKey(engine, graph_sha256, library.flavour, library.version, target.card, target.capability, build)


@dataclass(frozen=True)
class CachedEngine:
    """An entry of the cache.

    Attributes:
        digest: Its key's digest.
        key: Its key.
        size: Bytes of the plan.
        path: The plan.
    """

    digest: str
    key: EngineKey
    size: int
    path: Path


class EngineCache:
    """A folder of engines.

    Args:
        folder: None means `engines` in the data folder.
        max_bytes: When more than this lies there after a build, the entries that were used longest ago go.
        lock_timeout_s: How long to wait for another process that builds the same engine.
        clock: Seconds since the epoch; orders the entries by their last use.
    """

    def __init__(
        self,
        folder: Path | None = None,
        max_bytes: int = DEFAULT_BYTES,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder or liveanchor_home() / "engines"
        self._max_bytes = max_bytes
        self._lock_timeout_s = lock_timeout_s
        self._clock = clock

    def read(self, key: EngineKey) -> bytes | None:
        """The plan of a key; None where there is none, or where it is damaged."""
        digest = key.digest
        note = self._note(digest)
        if note is None:
            return None
        try:
            plan = self._plan_path(digest).read_bytes()
        except OSError:
            return None
        if len(plan) != note.get("size") or hashlib.sha256(plan).hexdigest() != note.get("sha256"):
            return None
        try:
            self._mark_used(digest)
        except OSError:
            return plan  # a shared, read-only folder: no order of use there
        return plan

    def read_or_build(self, key: EngineKey, build: Callable[[], bytes]) -> tuple[bytes, bool]:
        """The plan of a key, built by one process while others that want it wait.

        Args:
            key: What it is made of.
            build: Makes it.

        Returns:
            The plan, and whether it was built now.

        Raises:
            EngineCacheError: The folder cannot be written, or another process holds the lock for too long.
        """
        if (plan := self.read(key)) is not None:
            return plan, False
        digest = key.digest
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self.folder / f"{digest}.lock", timeout=self._lock_timeout_s):
                if (plan := self.read(key)) is not None:
                    return plan, False
                made = build()
                self._write(key, made)
                self._evict(keep=digest)
        except Timeout as error:
            raise EngineCacheError(key.engine, "another process has been building it for too long") from error
        except OSError as error:
            raise EngineCacheError(key.engine, f"{self.folder} cannot be written ({error.strerror})") from error
        return made, True

    def entries(self) -> list[CachedEngine]:
        """Entries, most recently used first, at most `MOST_LISTED`; what is not an entry is left out."""
        entries = []
        for path in self._notes():
            note = self._note(path.stem)
            plan = self._plan_path(path.stem)
            key = _key_of(note)
            if note is None or key is None or key.digest != path.stem or not plan.is_file():
                continue
            entries.append((plan.stat().st_mtime, CachedEngine(path.stem, key, plan.stat().st_size, plan)))
        return [entry for _, entry in sorted(entries, key=lambda pair: pair[0], reverse=True)]

    def remember_graph(self, source_digest: str, graph_sha256: str) -> None:
        """Note which graph a network exports to, so that the next start need not export it again."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(
                self.folder / _GRAPH_NAME.format(source_digest), json.dumps({"sha256": graph_sha256}).encode()
            )
        except OSError as error:
            raise EngineCacheError("graph", f"{self.folder} cannot be written ({error.strerror})") from error

    def known_graph(self, source_digest: str) -> str | None:
        """The digest noted by `remember_graph`."""
        found = _read_json(self.folder / _GRAPH_NAME.format(source_digest))
        value = found.get("sha256") if found else None
        return value if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) else None

    def _notes(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        names = []
        with os.scandir(self.folder) as found:
            for entry in found:
                if _NAME.match(entry.name):
                    names.append(entry.name)
                if len(names) >= MOST_LISTED:
                    break
        return [self.folder / name for name in names]

    def _plan_path(self, digest: str) -> Path:
        return self.folder / f"{digest}.plan"

    def _note(self, digest: str) -> dict[str, Any] | None:
        return _read_json(self.folder / f"{digest}.json")

    def _write(self, key: EngineKey, plan: bytes) -> None:
        """The plan first: an entry exists from the moment its note does."""
        digest = key.digest
        note = {"schema": SCHEMA, "size": len(plan), "sha256": hashlib.sha256(plan).hexdigest(), "key": asdict(key)}
        self._replace(self._plan_path(digest), plan)
        self._mark_used(digest)
        self._replace(self.folder / f"{digest}.json", json.dumps(note, sort_keys=True).encode())

    def _mark_used(self, digest: str) -> None:
        now = self._clock()
        os.utime(self._plan_path(digest), (now, now))

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)

    def _evict(self, keep: str) -> None:
        entries = self.entries()
        total = sum(entry.size for entry in entries)
        for entry in reversed(entries):
            if total <= self._max_bytes:
                return
            if entry.digest == keep:
                continue
            (self.folder / f"{entry.digest}.json").unlink(missing_ok=True)
            entry.path.unlink(missing_ok=True)
            total -= entry.size


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_NOTE + 1)
        found = json.loads(content) if len(content) <= LARGEST_NOTE else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _key_of(note: dict[str, Any] | None) -> EngineKey | None:
    try:
        return EngineKey(**note["key"]) if note and note.get("schema") == SCHEMA else None
    except (KeyError, TypeError):
        return None
