"""Decoding of uploaded pictures: what is accepted, what is refused and why, and what hostile files cost."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from pipeline.avatars.portrait import PortraitLimits, decode_portrait
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import STUDIO_GREY, claimed_size, sniff


def _scene(width: int = 160, height: int = 200) -> Image.Image:
    """Red left, blue right, top quarter green: its orientation can be told from its pixels."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2] = (200, 30, 40)
    pixels[:, width // 2 :] = (30, 40, 200)
    pixels[: height // 4] = (40, 180, 60)
    return Image.fromarray(pixels)


def _encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


JPEG = _encode(_scene(), "JPEG", quality=95)
PNG = _encode(_scene(), "PNG")
WEBP = _encode(_scene(), "WEBP", lossless=True)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_claiming(width: int, height: int, data: bytes = b"", depth: int = 8, colour: int = 2) -> bytes:
    """A PNG whose header claims any size, whatever the data holds."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = _png_chunk(b"IHDR", head) + _png_chunk(b"IDAT", zlib.compress(data)) + _png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _jpeg_claiming(width: int, height: int) -> bytes:
    """The JPEG with its frame header overwritten."""
    at = JPEG.index(b"\xff\xc0")
    return JPEG[: at + 5] + struct.pack(">HH", height, width) + JPEG[at + 9 :]


def _webp_claiming(width: int, height: int) -> bytes:
    """An extended WebP header with nothing behind it."""
    chunk = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", len(chunk)) + chunk
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _animated(kind: str) -> bytes:
    frames = [_scene(), Image.new("RGB", (160, 200), (1, 2, 3))]
    return _encode(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "portrait_unreadable"),
    "one_byte": (lambda: b"\xff", "portrait_unreadable"),
    "text_named_jpg": (lambda: b"This is not a picture.\n" * 20, "portrait_unreadable"),
    "utf8_text": (lambda: "Überschrift und Bild".encode(), "portrait_unreadable"),
    "html": (lambda: b"<!doctype html><html><body>404</body></html>", "portrait_unreadable"),
    "svg": (lambda: b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "portrait_unsupported"),
    "random_bytes": (lambda: np.random.default_rng(1).bytes(4096), "portrait_unreadable"),
    "zeros": (lambda: bytes(4096), "portrait_unreadable"),
    "heic_header_only": (lambda: b"\x00\x00\x00\x18ftypheic" + bytes(64), "portrait_unreadable"),
    "heif_mif1_header_only": (lambda: b"\x00\x00\x00\x18ftypmif1" + bytes(64), "portrait_unreadable"),
    "avif_header_only": (lambda: b"\x00\x00\x00\x18ftypavif" + bytes(64), "portrait_unreadable"),
    "gif": (lambda: _encode(_scene().convert("P"), "GIF"), "portrait_unsupported"),
    "bmp": (lambda: _encode(_scene(), "BMP"), "portrait_unsupported"),
    "tiff": (lambda: _encode(_scene(), "TIFF"), "portrait_unsupported"),
    "pdf": (lambda: b"%PDF-1.7\n" + bytes(100), "portrait_unsupported"),
    "zip": (lambda: b"PK\x03\x04" + bytes(100), "portrait_unsupported"),
    "mp4_as_picture": (lambda: b"\x00\x00\x00\x18ftypisom" + bytes(64), "portrait_unsupported"),
    "jpeg_magic_only": (lambda: JPEG[:3], "portrait_unreadable"),
    "jpeg_header_only": (lambda: JPEG[:200], "portrait_unreadable"),
    "jpeg_half": (lambda: JPEG[: len(JPEG) // 2], "portrait_unreadable"),
    "jpeg_without_tables": (lambda: JPEG[:2] + JPEG[JPEG.index(b"\xff\xc0") :], "portrait_unreadable"),
    "jpeg_bomb": (lambda: _jpeg_claiming(65000, 65000), "portrait_too_large"),
    "jpeg_100_megapixels": (lambda: _jpeg_claiming(10000, 10000), "portrait_too_large"),
    "jpeg_zero_height": (lambda: _jpeg_claiming(160, 0), "portrait_unreadable"),
    "png_magic_only": (lambda: PNG[:8], "portrait_unreadable"),
    "png_half": (lambda: PNG[: len(PNG) // 2], "portrait_unreadable"),
    "png_bad_crc": (lambda: _flip(PNG, 29), "portrait_unreadable"),
    "png_bad_zlib": (lambda: _flip(PNG, PNG.index(b"IDAT") + 4), "portrait_unreadable"),
    "png_bomb": (lambda: _png_claiming(200_000, 200_000), "portrait_too_large"),
    "png_100_megapixels": (lambda: _png_claiming(10_000, 10_000), "portrait_too_large"),
    "png_claims_more_than_it_holds": (lambda: _png_claiming(2000, 2000, bytes(100)), "portrait_unreadable"),
    "png_zero_width": (lambda: _png_claiming(0, 400), "portrait_unreadable"),
    "png_bad_depth": (lambda: _png_claiming(200, 200, depth=7), "portrait_unreadable"),
    "png_animated": (lambda: _animated("PNG"), "portrait_animated"),
    "webp_magic_only": (lambda: b"RIFF\x04\x00\x00\x00WEBP", "portrait_unreadable"),
    "webp_half": (lambda: WEBP[: len(WEBP) // 2], "portrait_unreadable"),
    "webp_unknown_chunk": (lambda: WEBP[:12] + b"XXXX" + WEBP[16:], "portrait_unreadable"),
    "webp_header_without_picture": (lambda: _webp_claiming(300, 300), "portrait_unreadable"),
    "webp_bomb": (lambda: _webp_claiming(16_383, 16_383), "portrait_too_large"),
    "webp_animated": (lambda: _animated("WEBP"), "portrait_animated"),
    "wav_in_riff": (lambda: b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(60), "portrait_unsupported"),
    "too_small": (lambda: _encode(_scene(40, 40), "PNG"), "portrait_too_small"),
    "one_pixel": (lambda: _encode(_scene(1, 1), "PNG"), "portrait_too_small"),
    "thin_strip": (lambda: _encode(_scene(4000, 20), "PNG"), "portrait_too_small"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_with_their_reason(name: str) -> None:
    make, code = HOSTILE[name]
    with pytest.raises(PortraitError) as caught:
        decode_portrait(make())
    error = caught.value
    assert (error.code, error.field) == (code, "portrait")
    assert error.got and error.allowed and error.detail and "\n" not in str(error)


def test_the_corpus_is_large() -> None:
    assert len(HOSTILE) >= 25


@pytest.mark.parametrize(("data", "tolerance"), [(JPEG, 12), (PNG, 0), (WEBP, 0)], ids=["jpeg", "png", "webp"])
def test_plain_pictures(data: bytes, tolerance: int) -> None:
    rgb = decode_portrait(data)
    assert rgb.dtype == np.uint8 and rgb.shape == (200, 160, 3) and rgb.flags.c_contiguous
    for y, x, colour in ((150, 20, (200, 30, 40)), (150, 140, (30, 40, 200)), (10, 80, (40, 180, 60))):
        assert np.abs(rgb[y, x].astype(int) - colour).max() <= tolerance


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_rotation_is_undone(orientation: int, kind: str) -> None:
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = _scene() if undo is None else _scene().transpose(undo)
    exif = Image.Exif()
    exif[0x0112] = orientation
    rgb = decode_portrait(_encode(stored, kind, exif=exif.tobytes()))
    assert np.abs(rgb.astype(int) - np.asarray(_scene())).mean() < 6


def test_damaged_exif_does_not_matter() -> None:
    data = _encode(_scene(), "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff")
    assert decode_portrait(data).shape == (200, 160, 3)
    exif = Image.Exif()
    exif[0x0112] = 99
    assert decode_portrait(_encode(_scene(), "JPEG", exif=exif.tobytes())).shape == (200, 160, 3)


def test_alpha_is_composited_over_studio_grey() -> None:
    image = _scene().convert("RGBA")
    image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, 160).astype(np.uint8), (200, 1))))
    rgb = decode_portrait(_encode(image, "PNG"))
    assert tuple(rgb[150, 0]) == STUDIO_GREY
    assert tuple(rgb[150, 159]) == (30, 40, 200)
    clear = Image.new("LA", (160, 160), (255, 0))
    assert (decode_portrait(_encode(clear, "PNG")) == STUDIO_GREY).all()


def test_palette_with_transparent_entry() -> None:
    image = Image.new("P", (160, 160), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.paste(1, (80, 0, 160, 160))
    rgb = decode_portrait(_encode(image, "PNG", transparency=0))
    assert tuple(rgb[10, 10]) == STUDIO_GREY and tuple(rgb[10, 150]) == (0, 255, 0)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_grey_and_palette_become_rgb(mode: str, kind: str) -> None:
    image = _scene().convert(mode)
    if kind == "JPEG" and mode != "1":
        image = image.convert("L")
    rgb = decode_portrait(_encode(image, kind))
    assert rgb.shape == (200, 160, 3) and rgb.dtype == np.uint8


def test_sixteen_bit_grey_keeps_its_range() -> None:
    ramp = np.tile(np.linspace(0, 65535, 256).astype(np.uint16), (160, 1))
    rgb = decode_portrait(_encode(Image.fromarray(ramp), "PNG"))
    assert np.abs(rgb[5, :, 1].astype(int) - np.arange(256)).max() <= 1


def test_a_transparent_value_of_sixteen_bit_grey() -> None:
    rows = np.full((160, 160), 20_000, ">u2")
    rows[:80] = 50_000
    data = _png_claiming(160, 160, b"".join(b"\0" + row.tobytes() for row in rows), depth=16, colour=0)
    assert tuple(decode_portrait(data)[20, 80]) == (195, 195, 195)
    clear = b"tRNS" + struct.pack(">H", 50_000)
    rgb = decode_portrait(_with_chunk(data, clear))
    assert tuple(rgb[20, 80]) == STUDIO_GREY and tuple(rgb[140, 80]) == (78, 78, 78)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize(("gamma", "seen"), [(100_000, 186), (55_556, 145), (45_455, 128), (5, 128), (10**9, 128)])
def test_a_png_s_own_exponent_is_a_screen_s(mode: str, gamma: int, seen: int) -> None:
    """0.5 of linear light is 186 of 255 on a screen; an exponent that no picture has does not count."""
    data = _with_chunk(_encode(Image.new(mode, (160, 160), "#808080"), "PNG"), b"gAMA" + struct.pack(">I", gamma))
    assert np.abs(decode_portrait(data)[80, 80].astype(int) - seen).max() <= 1


def test_an_exponent_beside_a_profile_does_not_count() -> None:
    grey = _encode(Image.new("RGB", (160, 160), "#808080"), "PNG")
    for other in (b"sRGB\0", b"cICP" + bytes((1, 13, 0, 1))):
        data = _with_chunk(_with_chunk(grey, b"gAMA" + struct.pack(">I", 100_000)), other)
        assert tuple(decode_portrait(data)[80, 80]) == (128, 128, 128)


def _with_chunk(png: bytes, chunk: bytes) -> bytes:
    """A PNG with one more chunk behind its header, given as name and content."""
    return png[:33] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


def test_sixteen_bit_rgb() -> None:
    row = np.tile(np.array([65535, 32768, 0], dtype=">u2"), (160, 1)).tobytes()
    data = _png_claiming(160, 160, (b"\x00" + row) * 160, depth=16)
    assert tuple(decode_portrait(data)[80, 80]) == (255, 128, 0)


def test_cmyk_with_and_without_profile() -> None:
    image = _scene().convert("CMYK")
    rgb = decode_portrait(_encode(image, "JPEG", quality=95))
    assert np.abs(rgb[150, 20].astype(int) - (200, 30, 40)).max() < 25
    broken = decode_portrait(_encode(image, "JPEG", quality=95, icc_profile=b"not a profile"))
    assert np.array_equal(broken, rgb)


def test_embedded_profile_is_converted_to_srgb() -> None:
    """A picture tagged with another white point changes; one tagged sRGB does not."""
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain = decode_portrait(PNG)
    assert np.abs(decode_portrait(_encode(_scene(), "PNG", icc_profile=srgb)).astype(int) - plain).max() <= 2
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()  # a profile that does not fit the pixels
    assert np.array_equal(decode_portrait(_encode(_scene(), "PNG", icc_profile=lab)), plain)
    for mode in ("L", "RGBA", "P"):
        assert decode_portrait(_encode(_scene().convert(mode), "PNG", icc_profile=srgb)).shape == (200, 160, 3)


def test_multi_picture_jpegs_of_phones_are_stills() -> None:
    data = _encode(_scene(), "MPO", save_all=True, append_images=[_scene()])
    assert Image.open(io.BytesIO(data)).format == "MPO"
    assert decode_portrait(data).shape == (200, 160, 3)


def test_the_limit_on_bytes() -> None:
    limits = PortraitLimits(max_bytes=len(PNG))
    assert decode_portrait(PNG, limits).shape == (200, 160, 3)
    with pytest.raises(PortraitError) as caught:
        decode_portrait(PNG + b"\x00", limits)
    assert caught.value.code == "portrait_too_large"


def test_the_limits_on_size_are_inclusive() -> None:
    limits = PortraitLimits(max_pixels=160 * 200, min_side_px=160)
    for data in (PNG, JPEG, WEBP):
        assert decode_portrait(data, limits).shape == (200, 160, 3)
        for tight in (PortraitLimits(max_pixels=160 * 200 - 1), PortraitLimits(min_side_px=161)):
            with pytest.raises(PortraitError):
                decode_portrait(data, tight)


@pytest.mark.parametrize("name", ["jpeg_bomb", "png_bomb", "webp_bomb", "png_100_megapixels", "jpeg_100_megapixels"])
def test_a_pixel_bomb_allocates_next_to_nothing(name: str) -> None:
    data = HOSTILE[name][0]()
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    with pytest.raises(PortraitError):
        decode_portrait(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 2**20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB, what C code took


@pytest.mark.parametrize(
    ("kind", "mode", "width"),
    [
        ("JPEG", "RGB", 2000),
        ("JPEG", "CMYK", 2000),
        ("PNG", "RGB", 2000),
        ("PNG", "P", 2000),
        ("PNG", "RGBA", 2000),
        ("PNG", "I;16", 2000),
        ("WEBP", "RGB", 2000),
    ],
)
def test_pictures_much_larger_than_a_canvas_are_reduced(kind: str, mode: str, width: int) -> None:
    image = _scene(8000, 800)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    rgb = decode_portrait(_encode(image.convert(mode), kind))
    assert rgb.shape == (200, width, 3)
    reference = decode_portrait(_encode(_scene(width, 200).convert("L" if mode == "I;16" else "RGB"), "PNG"))
    assert np.abs(rgb.astype(int) - reference).mean() < 6


def test_pictures_below_twice_a_canvas_keep_their_size() -> None:
    assert decode_portrait(_encode(_scene(3838, 200), "PNG")).shape == (200, 3838, 3)


def test_errors_survive_pickling_with_their_code() -> None:
    error = PortraitError("portrait_no_face", "got", "allowed", "detail")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (copy.code, copy.field, copy.got, str(copy)) == (error.code, "portrait", "got", str(error))


def test_claimed_sizes_of_every_kind_of_header() -> None:
    exif = b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00"
    for kind, options in (
        ("WEBP", {"lossless": True}),
        ("WEBP", {"quality": 60}),
        ("WEBP", {"exif": exif}),
        ("PNG", {"exif": exif}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": exif, "comment": b"\xff\xc0" * 30}),
    ):
        data = _encode(_scene(), kind, **options)
        assert claimed_size(data, kind) == (160, 200)
        assert claimed_size(data[:22], kind) is None
    padded = JPEG[:2] + b"\xff\xff\xff" + JPEG[2:]
    assert claimed_size(padded, "JPEG") == (160, 200)


def test_sniff_knows_videos() -> None:
    assert sniff(b"\x00\x00\x00\x20ftypisom") == "MP4"
    assert sniff(b"\x00\x00\x00\x14ftypqt  ") == "MP4"
    assert sniff(b"\x1aE\xdf\xa3rest") == "MKV"
    assert sniff(b"") == "unknown"


@settings(max_examples=150, deadline=None)
@given(
    source=st.sampled_from([JPEG, PNG, WEBP]),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6)), max_size=4),
)
def test_any_damage_gives_pixels_or_a_typed_refusal(source: bytes, cuts: list[tuple[float, bytes]]) -> None:
    data = bytearray(source)
    for where, insert in cuts:
        at = int(where * (len(data) - 1))
        data[at : at + len(insert)] = insert
    try:
        rgb = decode_portrait(bytes(data), PortraitLimits(max_pixels=10**6))
    except PortraitError as error:
        assert error.code.startswith("portrait_")
    else:
        assert rgb.ndim == 3 and rgb.dtype == np.uint8


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PortraitError):
        decode_portrait(data)
