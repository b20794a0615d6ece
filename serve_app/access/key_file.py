"""The file of keys: hashes only, written whole, read by every ingress and by the command line.

It is small and seldom written, so one JSON file that is replaced atomically is enough, also in a folder of several machines or as
a mounted secret, where it cannot be written. Processes notice a change within `LOOK_S`.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock
from pydantic import Field, ValidationError

from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.access.keys import ApiKey, Kept, Scope, Secret, digest_of, has_key_form, new_key_id, new_key_text

LOOK_S: Final = 1.0
"""Seconds between two looks at the file, and so the longest time that a revoked key still works."""
_LOCK_S: Final = 30.0


class KeyFileError(LiveAnchorError):
    """The file of keys cannot be used, so no key can be checked.

    Args:
        path: The file.
        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line which file it is and what is wrong."""
        return f"{self.path}: {self.reason}"


class KeyTable(Kept):
    """Content of the file.

    Attributes:
        version: Form of the file.
        signing_secret: 64 hexadecimal digits; signs session tokens.
        keys: All keys, revoked ones too, in the order of their making.
    """

    version: int = Field(1, ge=1, le=1)
    signing_secret: str = Field(pattern="^[0-9a-f]{64}$")
    keys: tuple[ApiKey, ...] = ()


class KeyFile:
    """Makes, lists, rotates, revokes and checks keys. Safe to share between threads and processes.

    Args:
        path: The file; made with its folder when the first key is.
        wall_clock: Gives seconds since the epoch.
        clock: Gives monotonic seconds, for the time between two looks at the file.
    """

    def __init__(
        self,
        path: Path,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._wall_clock = wall_clock
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._table: KeyTable | None = None
        self._by_digest: dict[str, ApiKey] = {}

    def create(self, name: str, scopes: tuple[Scope, ...], valid_s: float | None = None) -> tuple[ApiKey, str]:
        """Make a key.

        Args:
            name: Name for people, 1 to 100 characters.
            scopes: What it allows.
            valid_s: Seconds until it expires; None: never.

        Returns:
            What is kept, and the key's text, which is kept nowhere.

        Raises:
            InvalidInputError: The name.
            KeyFileError: The file cannot be read or written.
        """
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise InvalidInputError("name", repr(name[:80]), "1 to 100 characters that can be printed")
        text, now = new_key_text(), self._wall_clock()
        secret = Secret(digest=digest_of(text), expires_at=None if valid_s is None else now + valid_s)
        key = ApiKey(key_id=new_key_id(), name=name, scopes=scopes, created_at=now, secrets=(secret,))
        self._change(lambda table: table.model_copy(update={"keys": (*table.keys, key)}))
        return key, text

    def rotate(self, key_id: str, overlap_s: float) -> str:
        """Give a key a new text; what belongs to the key stays its own.

        Args:
            key_id: The key.
            overlap_s: Seconds for which the old text is taken too.

        Returns:
            The new text, which expires when the old one would have without this.

        Raises:
            InvalidInputError: There is no such key, or it was revoked.
            KeyFileError: The file cannot be read or written.
        """
        text, now = new_key_text(), self._wall_clock()

        def rotated(key: ApiKey) -> ApiKey:
            if key.revoked:
                raise InvalidInputError("KEY_ID", f"{key_id}, which was revoked", "a key that is valid")
            last = now + overlap_s
            old = [one for one in key.secrets if one.expires_at is None or one.expires_at > now]
            ends = [last if one.expires_at is None else min(one.expires_at, last) for one in old]
            kept = [Secret(digest=one.digest, expires_at=end) for one, end in zip(old, ends, strict=True) if end > now]
            return key.model_copy(
                update={"secrets": (*kept, Secret(digest=digest_of(text), expires_at=key.expires_at))}
            )

        self._change_one(key_id, rotated)
        return text

    def revoke(self, key_id: str) -> None:
        """Take a key back for good; its session tokens end with it.

        Raises:
            InvalidInputError: There is no such key.
            KeyFileError: The file cannot be read or written.
        """
        self._change_one(key_id, lambda key: key.model_copy(update={"revoked": True}))

    def list(self) -> list[ApiKey]:
        """All keys, in the order of their making; none where there is no file.

        Raises:
            KeyFileError: The file cannot be read.
        """
        table = self._read()
        return [] if table is None else list(table.keys)

    def find(self, text: str) -> ApiKey | None:
        """Find the valid key that a text opens; None where there is none.

        Raises:
            KeyFileError: The file cannot be read.
        """
        if not has_key_form(text):
            return None
        digest, now = digest_of(text), self._wall_clock()
        self._look()
        if digest not in self._by_digest:  # it may have been made a moment ago
            self._look(again=True)
        key = self._by_digest.get(digest)
        for one in () if key is None or key.revoked else key.secrets:
            if hmac.compare_digest(one.digest, digest) and (one.expires_at is None or now < one.expires_at):
                return key
        return None

    def valid(self, key_id: str) -> ApiKey | None:
        """Find a valid key by its id; None where there is none.

        Raises:
            KeyFileError: The file cannot be read.
        """
        self._look()
        keys = self._table.keys if self._table else ()
        return next((key for key in keys if key.key_id == key_id and key.valid(self._wall_clock())), None)

    def signing_secret(self) -> bytes | None:
        """32 random bytes that all processes share; None where no key was ever made.

        Raises:
            KeyFileError: The file cannot be read.
        """
        self._look()
        return bytes.fromhex(self._table.signing_secret) if self._table else None

    def _look(self, again: bool = False) -> None:
        """Read the file again where it has changed; a file that cannot be read lets nobody in."""
        with self._lock:
            now = self._clock()
            if now - self._looked_at < LOOK_S and not again:
                return
            seen = self._stat()
            if seen is None or seen != self._seen:
                table = self._read()
                self._table = table
                self._by_digest = {one.digest: key for key in (table.keys if table else ()) for one in key.secrets}
                self._seen = seen
            self._looked_at = now

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KeyFileError(str(self.path), f"cannot be read ({error.strerror})") from error
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> KeyTable | None:
        try:
            return KeyTable.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KeyFileError(str(self.path), f"cannot be read ({error.strerror})") from error
        except ValidationError as error:  # its own text would show what stands in the file
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
            raise KeyFileError(str(self.path), f"is damaged at {where}") from None

    def _change_one(self, key_id: str, change: Callable[[ApiKey], ApiKey]) -> None:
        def changed(table: KeyTable) -> KeyTable:
            if key_id not in {key.key_id for key in table.keys}:
                raise InvalidInputError("KEY_ID", repr(key_id[:80]), "an id that `liveanchor keys list` shows")
            keys = tuple(change(key) if key.key_id == key_id else key for key in table.keys)
            return table.model_copy(update={"keys": keys})

        self._change(changed)

    def _change(self, change: Callable[[KeyTable], KeyTable]) -> None:
        """Read, change and replace the file while no other process does."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.lock", timeout=_LOCK_S, mode=0o600):
                table = self._read() or KeyTable(signing_secret=secrets.token_hex(32))
                self._write(change(table))
        except (OSError, TimeoutError) as error:
            raise KeyFileError(str(self.path), f"cannot be written ({error})") from error
        with self._lock:
            self._looked_at = float("-inf")

    def _write(self, table: KeyTable) -> None:
        """Replace the file; `mkstemp` lets nobody but its owner read it."""
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(table.model_dump_json(indent=1))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        finally:
            Path(name).unlink(missing_ok=True)
