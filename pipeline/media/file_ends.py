"""Where a media file ends by its own structure: what lies behind is another file, a tag or nothing that was announced.

Only boxes, pages, tags and tables of lengths are walked; no sound is decoded. Kinds whose structure tells no length (MP3, ADTS,
AC-3, FLAC, transport streams) are not here: behind them, the next file is looked for by how files begin.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pipeline.media.scanned_file import ScannedFile

_STEPS: Final = 4_000_000
"""More boxes, pages or tags than a file of the largest size has; a bound for hostile ones."""
_MP4_NAMES: Final = frozenset(
    b"ftyp styp moov moof mdat free skip wide uuid meta mfra sidx ssix prft emsg pnot pdin udta".split()
)
_MP4_STARTS: Final = (b"ftyp", b"moov")
_EBML, _SEGMENT, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1F43B675
_MATROSKA_IDS: Final = frozenset(
    (
        # of the file: segment, void, checksum
        _SEGMENT, 0xEC, 0xBF,
        # of a segment: seek head, info, tracks, cluster, cues, attachments, chapters, tags
        0x114D9B74, 0x1549A966, 0x1654AE6B, _CLUSTER, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367,
        # of a cluster: time, silent tracks, position, previous size, block, group, encrypted block
        0xE7, 0x5854, 0xA7, 0xAB, 0xA3, 0xA0, 0xAF,
    )
)  # fmt: skip
_CLUSTER_OR_FILE: Final = re.compile(rb"\x1f\x43\xb6\x75|\x1a\x45\xdf\xa3")
_OGG: Final = b"OggS"
_OGG_FIRST: Final = 2
_OGG_PAGE: Final = re.compile(rb"OggS\x00[\x00-\x07]")
_FLV_TAGS: Final = frozenset((8, 9, 18, 40, 41, 50))
_ASF_DATA: Final = bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
_ASF_INDEXES: Final = frozenset(
    bytes.fromhex(guid)
    for guid in (
        "90080033b1e5cf1189f400a0c90349cb",
        "d329e2d6da35d111903400a0c90349be",
        "f803b1fead12644c840f2a1d2f7ad48c",
        "d03fb73c4a0c0348953dedf7b6228f0c",
    )
)
_UNKNOWN_32: Final = 0xFFFFFFFF


def end_of_file(file: ScannedFile, start: int) -> int | None:
    """Find the first byte behind a media file.

    Args:
        file: The upload.
        start: Where the media file begins in it.

    Returns:
        At most the upload's size, which is also the answer for a file that was cut short; None where the kind, or this file, does
        not tell.

    Raises:
        ScanLimitError: From `file`.
    """
    head = file.bytes_at(start, 16)
    for matches, walk in _WALKS:
        if matches(head):
            return walk(file, start)
    return None


def _mp4(file: ScannedFile, start: int) -> int | None:
    """Boxes up to one that is none, or up to another file type behind an index."""
    at, indexed = start, False
    for _ in range(_STEPS):
        head = file.bytes_at(at, 16)
        if len(head) < 8:
            return file.size
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        known = name in _MP4_NAMES
        if indexed and (name in _MP4_STARTS or not (known or (_is_name(name) and 8 <= length <= file.size - at))):
            return at
        if length < 8:
            return file.size
        indexed = indexed or name == b"moov"
        at += length
    return None


def _matroska(file: ScannedFile, start: int) -> int | None:
    """Elements; segments and clusters of unknown length are entered."""
    at = start
    for _ in range(_STEPS):
        head = file.bytes_at(at, 12)
        name, name_bytes = _ebml_number(head, keep_mark=True)
        length, length_bytes = _ebml_number(head[name_bytes:])
        if at > start and name not in _MATROSKA_IDS:
            following = file.first_place(_CLUSTER_OR_FILE, at)
            if name == _EBML or int.from_bytes(file.bytes_at(following, 4), "big") != _CLUSTER:
                return min(at, file.size)
            at = following  # damage in the middle: players go on here
            continue
        if length_bytes == 0:
            return file.size
        at += name_bytes + length_bytes
        if length == (1 << 7 * length_bytes) - 1:
            if name not in (_SEGMENT, _CLUSTER):
                return None
        else:
            at += length
    return None


def _ebml_number(data: bytes, *, keep_mark: bool = False) -> tuple[int, int]:
    """A number of EBML, with or without the bit that marks its length, and its bytes; (0, 0) for none."""
    count = 9 - data[0].bit_length() if data and data[0] else 0
    if not 0 < count <= len(data):
        return 0, 0
    value = int.from_bytes(data[:count], "big")
    return (value if keep_mark else value & ((1 << 7 * count) - 1)), count


def _ogg(file: ScannedFile, start: int) -> int | None:
    """Pages, up to a first page that does not belong to those at the start (one per stream of a file)."""
    at, first_pages = start, True
    for _ in range(_STEPS):
        head = file.bytes_at(at, 27)
        if not head.startswith(_OGG):
            following = file.first_place(_OGG_PAGE, at)
            if file.bytes_at(following + 5, 1)[:1] in (b"", b"\x02", b"\x06"):
                return min(at, file.size)
            at = following  # damage in the middle: players go on here
            continue
        if len(head) < 27:
            return file.size
        begins = bool(head[5] & _OGG_FIRST)
        if begins and not first_pages:
            return at
        first_pages = begins
        table = file.bytes_at(at + 27, head[26])
        at += 27 + len(table) + sum(table)
    return None


def _flv(file: ScannedFile, start: int) -> int | None:
    at = start + int.from_bytes(file.bytes_at(start + 5, 4), "big") + 4
    for _ in range(_STEPS):
        head = file.bytes_at(at, 11)
        if len(head) < 11 or head[0] not in _FLV_TAGS or head[8:11] != b"\0\0\0":
            return min(at, file.size)
        at += 11 + int.from_bytes(head[1:4], "big") + 4
    return None


def _au(file: ScannedFile, start: int) -> int | None:
    head = file.bytes_at(start + 4, 8)
    front, length = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
    return None if length in (0, _UNKNOWN_32) else min(start + front + length, file.size)


def _caf(file: ScannedFile, start: int) -> int | None:
    at = start + 8
    for _ in range(_STEPS):
        head = file.bytes_at(at, 12)
        length = int.from_bytes(head[4:], "big", signed=True)
        if len(head) < 12 or not _is_name(head[:4]) or (head[:4] != b"data" and length > file.size - at):
            return min(at, file.size)
        if length < 0:
            return None  # the sound goes on to the end, whatever comes
        at += 12 + length
    return None


def _w64(file: ScannedFile, start: int) -> int | None:
    length = int.from_bytes(file.bytes_at(start + 16, 8), "little")
    return start + length if 40 < length <= file.size - start else None


def _tta(file: ScannedFile, start: int) -> int | None:
    head = file.bytes_at(start, 22)
    if len(head) < 22:
        return None
    rate_hz, samples = int.from_bytes(head[10:14], "little"), int.from_bytes(head[14:18], "little")
    frames = -(-samples // max(256 * rate_hz // 245, 1))
    if frames > file.size // 4:
        return None
    table = file.bytes_at(start + 22, 4 * frames)
    lengths = (int.from_bytes(table[place : place + 4], "little") for place in range(0, len(table), 4))
    return min(start + 22 + 4 * frames + 4 + sum(lengths), file.size)


def _voc(file: ScannedFile, start: int) -> int | None:
    """Blocks up to the one that says it is the last, or up to what is no block."""
    at = start + int.from_bytes(file.bytes_at(start + 20, 2), "little")
    for _ in range(_STEPS):
        head = file.bytes_at(at, 4)
        if head[:1] == b"\0":
            return at + 1
        if len(head) < 4 or head[0] > 9:
            return min(at, file.size)
        at += 4 + int.from_bytes(head[1:], "little")
    return None


def _avi(file: ScannedFile, start: int) -> int | None:
    """The first list and those that continue it in large files."""
    at = start
    for _ in range(_STEPS):
        head = file.bytes_at(at, 12)
        length = int.from_bytes(head[4:8], "little")
        own = head[:4] in (b"idx1", b"JUNK", b"LIST") or (head[:4] == b"RIFF" and head[8:] == b"AVIX")
        if len(head) < 12 or (at > start and not own):
            return min(at, file.size)
        if length in (0, _UNKNOWN_32):
            return None
        at += 8 + length + length % 2
    return None


def _asf(file: ScannedFile, start: int) -> int | None:
    at = start
    for number in range(_STEPS):
        head = file.bytes_at(at, 24)
        length = int.from_bytes(head[16:], "little")
        if number == 1 and (head[:16] != _ASF_DATA or length < 24):
            return None  # a broadcast, whose writer never knew its length
        if len(head) < 24 or (number > 1 and head[:16] not in _ASF_INDEXES) or length < 24:
            return min(at, file.size)
        at += length
    return None


def _is_name(name: bytes) -> bool:
    return len(name) == 4 and all(32 <= byte < 127 for byte in name)


_WALKS: Final[tuple[tuple[Callable[[bytes], bool], Callable[[ScannedFile, int], int | None]], ...]] = (
    (lambda head: head[4:8] in (b"ftyp", b"moov", b"styp"), _mp4),
    (lambda head: head[:4] == b"\x1aE\xdf\xa3", _matroska),
    (lambda head: head[:4] == _OGG, _ogg),
    (lambda head: head[:4] == b"FLV\x01", _flv),
    (lambda head: head[:4] == b".snd", _au),
    (lambda head: head[:4] == b"caff", _caf),
    (lambda head: head[:8] == b"riff\x2e\x91\xcf\x11", _w64),
    (lambda head: head[:4] == b"TTA1", _tta),
    (lambda head: head == b"Creative Voice F", _voc),
    (lambda head: head[:4] == b"RIFF" and head[8:12] == b"AVI ", _avi),
    (lambda head: head == bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), _asf),
)
