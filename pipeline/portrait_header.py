"""What an uploaded file is and how large it claims to be, from its first bytes; nothing is decoded.

Pillow's WebP reader allocates two whole canvases before it tells the size, so that size is read here.
"""

from __future__ import annotations

from typing import Final

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
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
_HEIF_BRANDS: Final = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS: Final = {b"avif", b"avis"}
_TEXT_SAMPLE: Final = 512


def sniff(data: bytes) -> str:
    """Kind of file: `JPEG`, `PNG`, `WEBP`, `HEIC`, `AVIF`, `GIF`, ..., `MP4`, `MKV`, `SVG`, `text`, or `unknown`."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF":
        return {b"WEBP": "WEBP", b"AVI ": "AVI", b"WAVE": "WAV"}.get(data[8:12], "unknown")
    if data[4:8] == b"ftyp":
        brand = data[8:12]
        return "HEIC" if brand in _HEIF_BRANDS else "AVIF" if brand in _AVIF_BRANDS else "MP4"
    sample = data[:_TEXT_SAMPLE]
    if sample and all(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in sample):
        return "SVG" if b"<svg" in sample.lower() else "text"
    return "unknown"


def webp_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in a WebP header; None when the header is cut short or of no known kind."""
    chunk, body = data[12:16], data[20:30]
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
