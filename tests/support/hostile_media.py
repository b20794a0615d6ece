"""Media that nobody should send: broken, mislabelled, bombs, absurd claims. Small on the wire, made on the fly."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
from PIL import Image

from tests.support.media_samples import encoded, silent_video, sine, wav

MIB = 2**20


def png_claiming(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG whose header claims any size."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def picture(kind: str = "PNG", width: int = 200, height: int = 200, frames: int = 1) -> bytes:
    """Grey, without any face."""
    stills = [Image.new("RGB", (width, height), (shade, 120, 120)) for shade in range(90, 90 + 40 * frames, 40)]
    buffer = io.BytesIO()
    more = {"save_all": True, "append_images": stills[1:]} if frames > 1 else {}
    stills[0].save(buffer, kind, **more)
    return buffer.getvalue()


def png_with_text_bomb() -> bytes:
    """A small picture with a compressed text chunk that unpacks to 200 MB."""
    body = b"Comment\0\0" + zlib.compress(b"\0" * (200 * MIB), 9)
    chunk = struct.pack(">I", len(body)) + b"zTXt" + body + struct.pack(">I", zlib.crc32(b"zTXt" + body))
    plain = picture()
    return plain[:33] + chunk + plain[33:]


def zip_bomb() -> bytes:
    """100 MB of zeros in 100 kB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("speech.wav", b"\0" * (100 * MIB))
    return buffer.getvalue()


def wav_header(
    channels: int = 1, rate_hz: int = 16_000, bits: int = 16, claimed: int = 0xFFFFFFF0, tag: int = 1
) -> bytes:
    """A header that claims anything, with a few samples behind it."""
    align = max(channels * bits // 8, 1) & 0xFFFF
    head = struct.pack("<HHIIHH", tag, channels, rate_hz, (rate_hz * align) & 0xFFFFFFFF, align, bits)
    body = b"\1\0" * 64
    return (
        b"RIFF"
        + struct.pack("<I", 0xFFFFFFFF)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + head
        + b"data"
        + struct.pack("<I", claimed)
        + body
    )


def flac_bomb() -> bytes:
    """Half an hour of silence in a few kilobytes."""
    return encoded("flac", "flac", np.zeros(1800 * 8000, np.float32), 8000)


def wav_with_metadata(size: int) -> bytes:
    """A LIST chunk full of comment before the sound."""
    plain = wav((sine(0.1) * 20000).astype(np.int16))
    note = b"INFOICMT" + struct.pack("<I", size) + b"\xff\xfe" * (size // 2)
    return plain[:12] + b"LIST" + struct.pack("<I", len(note)) + note + plain[12:]


BAD_AUDIO: dict[str, tuple[bytes, str]] = {
    "no bytes": (b"", "audio_empty"),
    "one byte": (b"R", "audio_unreadable"),
    "text": (b"this is not speech, this is text\n" * 20, "audio_unreadable"),
    "html": (b"<!doctype html><script>alert(1)</script>" * 10, "audio_unreadable"),
    "json": (b'{"audio": "no"}' * 10, "audio_unreadable"),
    "random": (np.random.default_rng(1).bytes(30_000), "audio_unreadable"),
    "zeros": (b"\0" * 30_000, "audio_unreadable"),
    "an executable": (b"\x7fELF\x02\x01\x01" + bytes(4000), "audio_unreadable"),
    "a png named wav": (picture(), "audio_unreadable"),
    "a jpeg named mp3": (picture("JPEG"), "audio_unreadable"),
    "a zip bomb": (zip_bomb(), "audio_unreadable"),
    "an mp4 without sound": (silent_video(), "audio_no_stream"),
    "a wav of 0 samples": (wav(np.zeros(0, np.int16)), "audio_empty"),
    "a wav header alone": (wav(np.zeros(100, np.int16))[:40], "audio_unreadable"),
    "riff alone": (b"RIFF\x24\x00\x00\x00WAVE", "audio_unreadable"),
    "an mp4 without index": (silent_video()[:200], "audio_unreadable"),
    "an ogg page cut short": (b"OggS" + bytes(60), "audio_unreadable"),
    "nine channels": (wav(np.zeros((1600, 9), np.int16)), "audio_unsupported"),
    "sixty-four channels": (wav(np.zeros((800, 64), np.int16)), "audio_unsupported"),
    "0 channels": (wav_header(channels=0), ""),
    "65535 channels": (wav_header(channels=65535), ""),
    "1 Hz": (wav(np.zeros(100, np.int16), 1), "audio_unsupported"),
    "4 GHz": (wav_header(rate_hz=0xFFFFFFFF), ""),
    "384 kHz": (wav(np.zeros(38400, np.int16), 384_000), "audio_unsupported"),
    "an unknown codec": (wav_header(tag=0x7777), ""),
    "half an hour in 20 kB": (flac_bomb(), "audio_too_long"),
    "longer than allowed": (wav(np.zeros(16_000 * 6, np.int16)), "audio_too_long"),
    "a playlist": (b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n", "audio_unreadable"),
    "a concat script": (b"ffconcat version 1.0\nfile /etc/passwd\n", "audio_unreadable"),
    "sdp": (
        b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
        "audio_unreadable",
    ),
}
"""What comes, and the code of its refusal ("" where several are right)."""

ODD_AUDIO: dict[str, bytes] = {
    "one sample": wav(np.zeros(1, np.int16)),
    "not a number": wav(np.full(1600, np.nan, np.float32)),
    "infinite": wav(np.full(1600, np.inf, np.float32)),
    "a thousand times too loud": wav(np.full(1600, 1000.0, np.float32)),
    "digital silence": wav(np.zeros(3200, np.int16)),
    "constant": wav(np.full(3200, 30000, np.int16)),
    "eight channels": wav((sine(0.1, channels=8) * 9000).astype(np.int16)),
    "192 kHz": wav((sine(0.1, 192_000) * 9000).astype(np.int16), 192_000),
    "a length that lies": wav_header(),
    "half a megabyte of comment": wav_with_metadata(500_000),
}
"""Strange, but speech: a file comes back."""

BAD_PICTURES: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "portrait_unreadable"),
    "a text named jpg": (b"I am a picture, honestly", "portrait_unreadable"),
    "svg": (
        b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "portrait_unsupported",
    ),
    "gif": (picture("GIF"), "portrait_unsupported"),
    "bmp": (picture("BMP"), "portrait_unsupported"),
    "tiff": (picture("TIFF"), "portrait_unsupported"),
    "pdf": (b"%PDF-1.7\n" + bytes(100), "portrait_unsupported"),
    "a zip": (zip_bomb(), "portrait_unsupported"),
    "heic": (b"\0\0\0\x18ftypheic" + bytes(100), "portrait_unreadable"),
    "sound": (wav(np.zeros(1600, np.int16)), "portrait_unsupported"),
    "40 pixels": (picture(width=40, height=40), "portrait_too_small"),
    "a thread": (picture(width=2000, height=3), "portrait_too_small"),
    "100 megapixels claimed": (png_claiming(10_000, 10_000), "portrait_too_large"),
    "four gigapixels claimed": (png_claiming(65_535, 65_535), "portrait_too_large"),
    "2^31 pixels wide": (png_claiming(2**31 - 1, 2), "portrait_too_large"),
    "0 pixels": (png_claiming(0, 0), "portrait_unreadable"),
    "a deflate bomb": (png_claiming(200, 200, b"\0" * (50 * MIB)), ""),
    "a text bomb": (png_with_text_bomb(), ""),
    "cut in half": (picture("JPEG")[: len(picture("JPEG")) // 2], "portrait_unreadable"),
    "a png without data": (picture()[:40], "portrait_unreadable"),
    "animated": (picture("WEBP", frames=3), "portrait_animated"),
    "more bytes than a picture may have": (png_claiming(200, 200) + bytes(700_000), "portrait_too_large"),
    "no face": (picture(), "portrait_no_face"),
    "a video header": (b"\0\0\0\x18ftypisom" + bytes(300), "portrait_unreadable"),
}
"""What comes as a portrait, and the code of its refusal ("" where several are right)."""
