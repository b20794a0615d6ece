"""Where one upload holds several media files one after the other: FFmpeg reads the first and says nothing of the others.

Recorders and speech services hand out such files: WAV pieces that were joined as bytes, chained Ogg, joined MP4 or FLV. Each
piece is found by its own header, whatever its kind, and decoded on its own; sound that no header describes is refused.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

from pipeline.media.audio_errors import AudioUnreadableError
from pipeline.media.file_ends import end_of_file
from pipeline.media.scanned_file import HEAD, ScanLimitError, ScannedFile

MAX_PARTS: Final = 1000
_LEAST_BYTES: Final = 8
"""Fewer behind the end of a file, such as the end of a line, are no file."""
_MAX_CHUNKS: Final = 100_000
_CHUNKS_BEFORE_FORMAT: Final = 16
_EXTENSIBLE: Final = b"\xfe\xff"
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
_ID3: Final = b"ID3"
_ID3_HEAD: Final = re.compile(rb"ID3[\x02-\x04]\x00[\x00-\xf0][\x00-\x7f]{4}[A-Z\x00][A-Z0-9\x00]{2}")
_BEGINNINGS: Final = (
    _WAVE,
    _ID3_HEAD,
    re.compile(rb"FORM....AIF[FC](?:COMM|FVER|COMT|NAME|MARK)", re.DOTALL),
    re.compile(rb"RIFF....AVI LIST....hdrl", re.DOTALL),
    re.compile(rb"OggS\x00[\x02\x06]"),
    re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    re.compile(rb"\x1aE\xdf\xa3.{1,40}?(?:webm|matroska)", re.DOTALL),
    re.compile(rb"\0\0\0[\x10-\x80]ftyp(?:iso[m2-9]|mp4[12]|M4[AVB] |qt  |3gp[4-9]|avc1|dash)"),
    re.compile(rb"FLV\x01[\x01\x04\x05]\x00\x00\x00\x09\x00\x00\x00\x00"),
    re.compile(rb"\.snd\0\0..(?:\xff{4}|[\0-\x0f]...)\0\0\0[\x01-\x1b]\0[\0-\x02]..\0\0\0[\x01-\x08]", re.DOTALL),
    re.compile(rb"caff\x00\x01\x00\x00desc"),
    re.compile(rb"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb"),
    re.compile(rb"TTA1[\x01\x02]\0[\x01-\x08]\0[\x08\x10\x18]\0..[\0-\x02]\0", re.DOTALL),
    re.compile(rb"Creative Voice File\x1a"),
    re.compile(rb"nut/multimedia container\0"),
    # the first of a file's blocks: sample 0, bit 11 of its flags set
    re.compile(
        rb"wvpk..[\0-\x10]\0[\x02-\x10]\x04.{6}\0{4}.{5}[\x08-\x0f\x18-\x1f\x28-\x2f\x38-\x3f\x88-\x8f\x98-\x9f\xa8-\xaf\xb8-\xbf]",
        re.DOTALL,
    ),
    re.compile(rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9"),
    re.compile(rb"\.RMF\0\0\0[\x10-\x14]\0[\0\x01]"),
)
"""How files of all kinds begin that say so clearly enough to be found anywhere."""


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
        left = self._part.end - self._part.start - self._position
        if left <= 0:
            return b""  # a place behind the end may be too far away to seek to
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
        At least one part, in order; together they cover what can hold sound. What lies behind the end of a file and is no tag is
        a part, whether or not a decoder knows it.

    Raises:
        AudioUnreadableError: Bytes behind the end of a WAV or AIFF file that are neither another one nor a known tag, too many
            parts, or headers that lead back and forth.
    """
    try:
        return _parts(ScannedFile(file))
    except ScanLimitError as error:
        raise AudioUnreadableError(str(error), _WHOLE) from error


def _parts(file: ScannedFile) -> list[Part]:
    """The parts, in order; one of no bytes in a file of none."""
    parts: list[Part] = []
    start = 0
    while start < file.size:
        start = _behind_leading_tags(file, start)
        following = _next_start(file, start)
        parts.append(Part(start, following, _whole_container(file, start)))
        if len(parts) > MAX_PARTS:
            raise AudioUnreadableError(f"more than {MAX_PARTS} files in one", _WHOLE)
        start = following
    return parts or [Part(0, file.size)]


def _whole_container(file: ScannedFile, start: int) -> tuple[int, bytes] | None:
    """Where a WAV says that 24 bits (or fewer) of its 32-bit samples are valid, and the 32 that FFmpeg must read to decode it.

    Valid bits are the upper ones, so all of them can be used; FFmpeg takes such samples for floats, or for shorter ones.
    """
    head = file.bytes_at(start, 12)
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
        return None
    at = start + 12
    for _ in range(_CHUNKS_BEFORE_FORMAT):
        chunk = file.bytes_at(at, 28)
        if len(chunk) < 28:
            return None
        length = int.from_bytes(chunk[4:8], "little")
        if chunk[:4] == b"fmt ":
            bits, valid = int.from_bytes(chunk[22:24], "little"), int.from_bytes(chunk[26:28], "little")
            known = chunk[8:10] == _EXTENSIBLE and length >= 40 and bits in (16, 24, 32)
            return (at + 26, chunk[22:24]) if known and 0 < valid < bits else None
        at += 8 + length + length % 2
    return None


def _next_start(file: ScannedFile, start: int) -> int:
    """Where the next file begins; the size when there is none."""
    head = file.bytes_at(start, HEAD)
    if head[:4] in _CHUNKED and head[8:12] in (b"WAVE", b"AIFF", b"AIFC"):
        return _behind_chunks(file, start, head)
    end = end_of_file(file, start)
    if end is not None and end > start:
        return _behind_tags(file, end)
    return _next_beginning(file, _behind_tag(head, start) + 1)


def _next_beginning(file: ScannedFile, start: int) -> int:
    """Where the first file begins from `start` on, whatever lies before it; the size when there is none."""
    for at, own, data in file.blocks(start):
        found = own
        for pattern in _BEGINNINGS:
            for match in pattern.finditer(data, 0, found + HEAD):
                if match.start() >= found:
                    break
                if pattern is not _ID3_HEAD or _tags_a_file(file, at + match.start()):
                    found = match.start()
                    break
        if found < own:
            return at + found
    return file.size


def _behind_tags(file: ScannedFile, at: int) -> int:
    """The size where only zeros, tags or a handful of bytes are left, else where something else begins."""
    while at + _LEAST_BYTES <= file.size and not _starts_a_file(file, at):
        left = file.bytes_at(at, HEAD)
        if left.startswith(b"APETAGEX"):  # its own head, then what the length in it counts
            at += 32 + int.from_bytes(left[12:16], "little")
        elif left.startswith(b"TAG"):
            at += 128
        else:
            return file.size if left.startswith(_TAGS) or _only_zeros(file, at) else at
    return file.size if at + _LEAST_BYTES > file.size else at


def _behind_leading_tags(file: ScannedFile, at: int) -> int:
    """Where the last of several ID3 tags begins, or the WAV or MP4 file behind one; FFmpeg does not step over those."""
    while (behind := _behind_tag(file.bytes_at(at, HEAD), at)) > at:
        head = file.bytes_at(behind, HEAD)
        if not (_ID3_HEAD.match(head) or _WAVE.match(head) or head[4:8] == b"ftyp"):
            break
        at = behind
    return at


def _behind_tag(head: bytes, at: int) -> int:
    """Where an ID3 tag that begins at `at` ends; `at` where there is none."""
    if not _ID3_HEAD.match(head):
        return at
    return at + 10 + sum((byte & 0x7F) << (7 * (3 - place)) for place, byte in enumerate(head[6:10]))


def _starts_a_file(file: ScannedFile, at: int) -> bool:
    """Whether a media file begins there; an ID3 tag begins one when sound follows it."""
    head = file.bytes_at(at, HEAD)
    if head.startswith(_ID3):
        behind = _behind_tag(head, at)
        rest = file.bytes_at(behind, HEAD)
        return at < behind < file.size and not rest.startswith(_TAGS) and not _only_zeros(file, behind)
    return any(pattern.match(head) for pattern in _BEGINNINGS)


def _tags_a_file(file: ScannedFile, at: int) -> bool:
    """Whether an ID3 tag begins a file; with zeros behind it and then a WAV, that is one of its own."""
    if not _starts_a_file(file, at):
        return False
    behind = _behind_tag(file.bytes_at(at, HEAD), at)
    return not _WAVE.match(file.bytes_at(file.behind_zeros(behind), HEAD))


def _behind_chunks(file: ScannedFile, start: int, head: bytes) -> int:
    """Walk the chunks of a RIFF or AIFF file; sizes in its own header are often wrong and do not count."""
    order: Literal["little", "big"] = _CHUNKED[head[:4]]
    sound = b"SSND" if head[:4] == b"FORM" else b"data"
    at, heard, wide = start + 12, False, 0
    for _ in range(_MAX_CHUNKS):
        name = file.bytes_at(at, 8)
        if at > start + 12 and (name[:4] in _CHUNKED or _starts_a_file(file, at)):
            return at
        if len(name) < 8 or name.startswith(_TAGS):
            return _behind_tags(file, at)
        length = int.from_bytes(name[4:], order)
        if name[:4] == b"ds64":
            wide = int.from_bytes(file.bytes_at(at + 16, 8), "little")
        if name[:4] == sound and not heard:
            heard = True
            if wide and length == 0xFFFFFFFF:
                length = wide
            if length == 0 or at + 8 + length > file.size:  # a stream whose writer never knew its length, or a cut file
                return _next_beginning(file, at + 8) if sound == b"data" else file.size
        elif heard and (name[:4] == sound or not _is_chunk(name[:4]) or at + 8 + length > file.size):
            if _only_zeros(file, at):
                return file.size
            raise AudioUnreadableError(f"{file.size - at} bytes behind the end of the sound, at byte {at}", _WHOLE)
        elif at + 8 + length > file.size:
            return file.size  # damaged in front of any sound: the decoder says what it thinks of it
        at += 8 + length
        if length % 2 and (file.bytes_at(at, 1) == b"\0" or not _is_chunk(file.bytes_at(at, 4))):
            at += 1
    raise AudioUnreadableError(f"more than {_MAX_CHUNKS} chunks", _WHOLE)


def _is_chunk(name: bytes) -> bool:
    return len(name) == 4 and all(32 <= byte < 127 for byte in name)


def _only_zeros(file: ScannedFile, at: int) -> bool:
    return file.behind_zeros(at) == file.size
