"""What an uploaded file is and how large it claims to be, from its first bytes; nothing is decoded.

Sizes are read here and not by Pillow: its WebP reader allocates two whole canvases before it tells the size.
"""

from __future__ import annotations

from typing import Final

STUDIO_GREY: Final = (186, 186, 186)
"""Transparent pixels become this, sRGB."""
_PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xd8\xff", "JPEG"),
    (_PNG_MAGIC, "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"%PDF", "PDF"),
    (b"8BPS", "PSD"),
    (b"\x1aE\xdf\xa3", "MKV"),
    (b"PK\x03\x04", "ZIP"),
    (b"\xff\x0a", "JXL"),
    (b"\x00\x00\x00\x0cJXL ", "JXL"),
)
VIDEO_KINDS: Final = ("MP4", "MKV")
"""Kinds of file that `sniff` tells and that hold moving pictures."""
_HEIF_BRANDS: Final = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS: Final = {b"avif", b"avis"}
_BRANDS_END: Final = 64
_TEXT_SAMPLE: Final = 512
_META_BYTES: Final = 1 << 20
"""Where a HEIF or AVIF file has its properties; what lies behind is picture data."""
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Start-of-frame markers; C4, C8 and CC are tables and extensions."""
_JPEG_BARE: Final = frozenset({0x00, 0x01, 0xFF, *range(0xD0, 0xD9)})
"""Markers (and fill bytes) without a length."""


def sniff(data: bytes) -> str:
    """Kind of file: `JPEG`, `PNG`, `WEBP`, `HEIC`, `AVIF`, `GIF`, ..., `MP4`, `MKV`, `SVG`, `text`, or `unknown`."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF":
        return {b"WEBP": "WEBP", b"AVI ": "AVI", b"WAVE": "WAV"}.get(data[8:12], "unknown")
    if data[4:8] == b"ftyp":
        if data[8:12] not in _HEIF_BRANDS | _AVIF_BRANDS:
            return "MP4"
        end = min(int.from_bytes(data[:4], "big"), _BRANDS_END)
        brands = {data[at : at + 4] for at in (8, *range(16, end - 3, 4))}
        return "AVIF" if brands & _AVIF_BRANDS else "HEIC"
    sample = data[:_TEXT_SAMPLE]
    if sample and all(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in sample):
        return "SVG" if b"<svg" in sample.lower() else "text"
    return "unknown"


def claimed_size(data: bytes, kind: str) -> tuple[int, int] | None:
    """(width, height) in pixels that a `JPEG`, `PNG`, `WEBP`, `HEIC` or `AVIF` header claims; None: cut short or damaged."""
    readers = {"JPEG": _jpeg_size, "PNG": _png_size, "WEBP": _webp_size, "HEIC": _heif_size, "AVIF": _heif_size}
    return readers[kind](data)


def _png_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walk the marker segments up to the frame header."""
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            at += 1  # fill or garbage between segments, as libjpeg skips it
            continue
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        if marker in (0xD9, 0xDA):
            return None  # the end, or picture data, before any frame header
        if marker in _JPEG_BARE:
            at += 1 if marker == 0xFF else 2
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    chunk, body = data[12:16], data[20:30]  # extended, lossy or lossless, each with its own fields
    if len(body) < 10:
        return None
    if chunk == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if chunk == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    if chunk == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _heif_size(data: bytes) -> tuple[int, int] | None:
    """The largest picture that any `ispe` property claims: tiles have one each, the whole picture too."""
    sizes: list[tuple[int, int]] = []
    head = data[:_META_BYTES]
    at = head.find(b"ispe")
    while at >= 0:
        size = head[at + 8 : at + 16]
        if len(size) == 8:
            sizes.append((int.from_bytes(size[:4], "big"), int.from_bytes(size[4:], "big")))
        at = head.find(b"ispe", at + 4)
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


def claimed_colour(data: bytes) -> tuple[int, int] | None:
    """(primaries, transfer) by the numbers of ITU-T H.273 that a `PNG`, `HEIC` or `AVIF` header names; None where it names none."""
    head = data[:_META_BYTES]
    if head.startswith(_PNG_MAGIC):
        at = head.find(b"\0\0\0\x04cICP", 0, max(head.find(b"IDAT"), 0))
        return (head[at + 8], head[at + 9]) if at >= 0 else None
    at = head.find(b"colrnclx")
    numbers = data[at + 8 : at + 12]
    if at < 0 or len(numbers) < 4:
        return None
    return int.from_bytes(numbers[:2], "big"), int.from_bytes(numbers[2:], "big")
