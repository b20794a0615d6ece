"""Where one upload holds several media files one after the other: FFmpeg reads the first and says nothing of the others.

Recorders and speech services hand out such files: WAV pieces that were joined as bytes, chained Ogg, joined MP4 or FLV. Each
piece is found by its own header, whatever its kind, and decoded on its own; sound that no header describes is refused.
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

from pipeline.media.audio_errors import AudioUnreadableError

MAX_PARTS: Final = 1000
_MAX_CHUNKS: Final = 100_000
_CHUNKS_BEFORE_FORMAT: Final = 16
_EXTENSIBLE: Final = b"\xfe\xff"
_BLOCK: Final = 1 << 20
_HEAD: Final = 64
_WHOLE: Final = "one audio file, or several whole ones behind each other"
_CHUNKED: Final[dict[bytes, Literal["little", "big"]]] = {
    b"RIFF": "little",
    b"RF64": "little",
    b"BW64": "little",
    b"RIFX": "big",
    b"FORM": "big",
}
_WAVE: Final = re.compile(rb"(?:RIFF|RF64|BW64|RIFX)....WAVE(?:fmt |JUNK|bext|ds64|LIST|fact|FLLR)", re.DOTALL)
_TAGS: Final = (b"TAG", b"APETAGEX", b"ID3", b"LYRICS")
_PATTERNS: Final[tuple[tuple[bytes, re.Pattern[bytes]], ...]] = (
    (b"OggS", re.compile(rb"OggS\x00[\x02\x06]")),
    (b"fLaC", re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")),
    (b"\x1aE\xdf\xa3", re.compile(rb"\x1aE\xdf\xa3.{1,40}?(?:webm|matroska)", re.DOTALL)),
    (b"FLV\x01", re.compile(rb"FLV\x01[\x01\x04\x05]\x00\x00\x00\x09\x00\x00\x00\x00")),
    (b"ID3", re.compile(rb"ID3[\x02-\x04]\x00[\x00-\xf0][\x00-\x7f]{4}[A-Z\x00][A-Z0-9\x00]{2}")),
    (b".snd", re.compile(rb"\.snd\x00\x00..", re.DOTALL)),
    (b"caff", re.compile(rb"caff\x00\x01\x00\x00desc")),
    (b"riff.\x91\xcf\x11", re.compile(rb"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb")),
)
"""How a file of a kind begins, and how the next one is recognised."""
_PATTERN_OF: Final = dict(_PATTERNS)
_ID3: Final = b"ID3"
_OTHER_KINDS: Final = (
    _WAVE,
    re.compile(rb"FORM....AIF[FC](?:COMM|FVER|COMT|NAME|MARK)", re.DOTALL),
    *(pattern for magic, pattern in _PATTERNS if magic in (b"OggS", b"\x1aE\xdf\xa3", b"FLV\x01", _ID3)),
    re.compile(rb"\0\0\0[\x10-\x80]ftyp(?:iso[m2-9]|mp4[12]|M4[AVB] |qt  |3gp[4-9]|avc1|dash)"),
)
"""How a file of another kind is recognised within the bytes of the one before; FLAC's mark is part of Ogg and Matroska too."""


@dataclass(frozen=True)
class Part:
    """A media file within an upload: its first byte, the first byte behind it, and bytes to read in the place of its own."""

    start: int
    end: int
    mended: tuple[int, bytes] | None = None


class PartFile(io.RawIOBase):
    """The bytes of one part as a file of their own.

    Args:
        file: The upload, which must stay open.
        part: Which bytes.
    """

    def __init__(self, file: BinaryIO, part: Part) -> None:
        super().__init__()
        self._file = file
        self._part = part
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the position on; all that are left when it is negative."""
        left = max(0, self._part.end - self._part.start - self._position)
        self._file.seek(self._part.start + self._position)
        data = self._file.read(left if size < 0 else min(size, left))
        if self._part.mended is not None:
            data = self._mend(data, *self._part.mended)
        self._position += len(data)
        return data

    def _mend(self, data: bytes, place: int, right: bytes) -> bytes:
        out, at = bytearray(data), place - self._part.start - self._position
        for index, byte in enumerate(right, at):
            if 0 <= index < len(out):
                out[index] = byte
        return bytes(out)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move within the part."""
        ends = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._part.end - self._part.start}
        self._position = max(0, ends[whence] + offset)
        return self._position

    def tell(self) -> int:
        """Position within the part."""
        return self._position


def parts_of(file: BinaryIO) -> list[Part]:
    """The media files that an upload consists of.

    Args:
        file: A seekable file.

    Returns:
        At least one part, in order; together they cover what can hold sound.

    Raises:
        AudioUnreadableError: Bytes behind the end of a WAV or AIFF file that are neither another one nor a known tag, or too many
            parts.
    """
    size = file.seek(0, os.SEEK_END)
    parts: list[Part] = []
    start = 0
    while start < size:
        following = _next_start(file, start, size)
        parts.append(Part(start, following, _whole_container(file, start)))
        if len(parts) > MAX_PARTS:
            raise AudioUnreadableError(f"more than {MAX_PARTS} files in one", _WHOLE)
        start = following
    return parts or [Part(0, size)]


def _whole_container(file: BinaryIO, start: int) -> tuple[int, bytes] | None:
    """Where a WAV says that 24 bits (or fewer) of its 32-bit samples are valid, and the 32 that FFmpeg must read to decode it.

    Valid bits are the upper ones, so all of them can be used; FFmpeg takes such samples for floats, or for shorter ones.
    """
    head = _at(file, start, 12)
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
        return None
    at = start + 12
    for _ in range(_CHUNKS_BEFORE_FORMAT):
        chunk = _at(file, at, 28)
        if len(chunk) < 28:
            return None
        length = int.from_bytes(chunk[4:8], "little")
        if chunk[:4] == b"fmt ":
            bits, valid = int.from_bytes(chunk[22:24], "little"), int.from_bytes(chunk[26:28], "little")
            known = chunk[8:10] == _EXTENSIBLE and length >= 40 and bits in (16, 24, 32)
            return (at + 26, chunk[22:24]) if known and 0 < valid < bits else None
        at += 8 + length + length % 2
    return None


def _next_start(file: BinaryIO, start: int, size: int) -> int:
    """Where the next file begins; the size when there is none."""
    head = _at(file, start, _HEAD)
    if head[:4] in _CHUNKED and head[8:12] in (b"WAVE", b"AIFF", b"AIFC"):
        return _behind_chunks(file, start, size, head)
    if head[4:8] in (b"ftyp", b"moov", b"styp"):
        return _next_mp4(file, start, size)
    following, own = size, None
    for magic, pattern in _PATTERNS:
        if head.startswith(magic):
            own = pattern
            if magic == b"OggS":
                following = _next_ogg(file, start, size, pattern)
            else:
                found = _find(file, pattern, start + len(magic), size)
                following = size if found is None else found
    behind_tag = _behind_tag(head, start) + 1
    for pattern in _OTHER_KINDS:
        found = _find(file, pattern, behind_tag, following) if pattern is not own else None
        following = following if found is None else min(following, found)
    return following


def _behind_tag(head: bytes, at: int) -> int:
    """Where an ID3 tag that begins at `at` ends; `at` where there is none."""
    if not _PATTERN_OF[_ID3].match(head):
        return at
    return at + 10 + sum((byte & 0x7F) << (7 * (3 - place)) for place, byte in enumerate(head[6:10]))


def _starts_a_file(file: BinaryIO, at: int, size: int) -> bool:
    """Whether a media file begins there; an ID3 tag begins one when sound follows it."""
    head = _at(file, at, _HEAD)
    if head.startswith(_ID3):
        behind = _behind_tag(head, at)
        rest = _at(file, behind, _HEAD)
        return at < behind < size and not rest.startswith(_TAGS) and not _only_zeros(file, behind, size)
    patterns = (*_PATTERN_OF.values(), *_OTHER_KINDS)
    return any(pattern.match(head) for pattern in patterns)


def _behind_chunks(file: BinaryIO, start: int, size: int, head: bytes) -> int:
    """Walk the chunks of a RIFF or AIFF file; sizes in its own header are often wrong and do not count."""
    order: Literal["little", "big"] = _CHUNKED[head[:4]]
    sound = b"SSND" if head[:4] == b"FORM" else b"data"
    at, heard, wide = start + 12, False, 0
    for _ in range(_MAX_CHUNKS):
        name = _at(file, at, 8)
        if at > start + 12 and (name[:4] in _CHUNKED or _starts_a_file(file, at, size)):
            return at
        if len(name) < 8 or name.startswith(_TAGS):
            return size
        length = int.from_bytes(name[4:], order)
        if name[:4] == b"ds64":
            wide = int.from_bytes(_at(file, at + 16, 8), "little")
        if name[:4] == sound and not heard:
            heard = True
            if wide and length == 0xFFFFFFFF:
                length = wide
            if length == 0 or at + 8 + length > size:  # a stream whose writer never knew its length, or a cut file
                found = _find(file, _WAVE, at + 8, size) if sound == b"data" else None
                return size if found is None else found
        elif heard and (name[:4] == sound or not _is_chunk(name[:4]) or at + 8 + length > size):
            if _only_zeros(file, at, size):
                return size
            raise AudioUnreadableError(f"{size - at} bytes behind the end of the sound, at byte {at}", _WHOLE)
        elif at + 8 + length > size:
            return size  # damaged in front of any sound: the decoder says what it thinks of it
        at += 8 + length
        if length % 2 and (_at(file, at, 1) == b"\0" or not _is_chunk(_at(file, at, 4))):
            at += 1
    raise AudioUnreadableError(f"more than {_MAX_CHUNKS} chunks", _WHOLE)


def _is_chunk(name: bytes) -> bool:
    return len(name) == 4 and all(32 <= byte < 127 for byte in name)


def _next_mp4(file: BinaryIO, start: int, size: int) -> int:
    """Walk the boxes up to another file type behind an index."""
    at, indexed = start, False
    for _ in range(_MAX_CHUNKS):
        head = _at(file, at, 16)
        if len(head) < 8:
            return size
        if indexed and (head[4:8] in (b"ftyp", b"moov") or _starts_a_file(file, at, size)):
            return at
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            return size
        indexed = indexed or head[4:8] == b"moov"
        at += length
    return size


def _next_ogg(file: BinaryIO, start: int, size: int, first_page: re.Pattern[bytes]) -> int:
    """The next first page of a stream that does not belong to the first pages at the start (one per stream of a file)."""
    at = start
    while True:
        table = _at(file, at + 26, 256)
        behind = at + 27 + table[0] + sum(table[1 : 1 + table[0]]) if table else size
        found = _find(file, first_page, at + 4, size)
        if found is None or found != behind:
            return size if found is None else found
        at = found


def _find(file: BinaryIO, pattern: re.Pattern[bytes], start: int, size: int) -> int | None:
    """First place of a pattern of at most `_HEAD` bytes from `start` on and before `size`; a tag without sound is none."""
    at = start
    while at < size:
        block = _at(file, at, _BLOCK + _HEAD)
        for match in pattern.finditer(block):
            found = at + match.start()
            if pattern is not _PATTERN_OF[_ID3] or _starts_a_file(file, found, size):
                return found if found < size else None
        at += _BLOCK
    return None


def _only_zeros(file: BinaryIO, at: int, size: int) -> bool:
    while at < size:
        block = _at(file, at, _BLOCK)
        if block.strip(b"\0"):
            return False
        at += _BLOCK
    return True


def _at(file: BinaryIO, position: int, count: int) -> bytes:
    file.seek(position)
    return file.read(count)
