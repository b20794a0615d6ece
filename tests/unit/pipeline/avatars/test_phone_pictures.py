"""HEIC and AVIF, and the colours that phones and cameras write."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageCms

from pipeline.avatars.portrait import PortraitLimits, decode_portrait
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import claimed_colour, claimed_size, sniff

pillow_heif.register_heif_opener()
KINDS = ["HEIF", "AVIF"]


def scene(width=160, height=200):
    pixels = np.full((height, width, 3), 90, np.uint8)
    pixels[: height // 2, : width // 2] = (200, 40, 40)
    pixels[: height // 2, width // 2 :] = (40, 180, 60)
    pixels[height // 2 :, : width // 2] = (40, 50, 200)
    return Image.fromarray(pixels)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=95, **options)
    return buffer.getvalue()


def claiming(kind, width, height):
    """The picture with every size in its header overwritten."""
    out = bytearray(encode(scene(), kind))
    at = out.find(b"ispe")
    while at >= 0:
        out[at + 8 : at + 16] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        at = out.find(b"ispe", at + 4)
    return bytes(out)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_of_telephones_are_read(kind):
    data = encode(scene(), kind)
    name = "HEIC" if kind == "HEIF" else "AVIF"
    assert sniff(data) == name and claimed_size(data, name) == (160, 200)
    rgb = decode_portrait(data)
    assert rgb.shape == (200, 160, 3) and rgb.dtype == np.uint8
    assert np.abs(rgb.astype(int) - np.asarray(scene())).mean() < 6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation,turn", [(1, 0), (3, 2), (6, -1), (8, 1)])
def test_their_turn_is_undone_once(kind, orientation, turn):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(np.asarray(scene()), -turn)))
    rgb = decode_portrait(encode(stored, kind, exif=exif.tobytes()))
    assert np.abs(rgb.astype(int) - np.asarray(scene())).mean() < 6


@pytest.mark.parametrize("kind", KINDS)
def test_transparency_grey_and_size(kind):
    clear = scene().convert("RGBA")
    clear.putalpha(0)
    assert np.abs(decode_portrait(encode(clear, kind)).astype(int) - 186).max() <= 2
    assert decode_portrait(encode(scene().convert("L"), kind)).shape == (200, 160, 3)
    with pytest.raises(PortraitError) as caught:
        decode_portrait(encode(scene(), kind), PortraitLimits(max_pixels=160 * 200 - 1))
    assert caught.value.code == "portrait_too_large"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(65_535, 65_535), (2**32 - 1, 2**32 - 1), (10_000, 10_000)])
def test_a_pixel_bomb_is_refused_before_anything_is_decoded(kind, size):
    data = claiming(kind, *size)
    tracemalloc.start()
    with pytest.raises(PortraitError) as caught:
        decode_portrait(data)
    assert caught.value.code == "portrait_too_large"
    assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_ones_are_refused_in_words(kind):
    data = encode(scene(), kind)
    rng = np.random.default_rng(2)
    damaged = [data[: int(len(data) * share)] for share in (0.2, 0.5, 0.9)]
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.integers(1, 8)):
            broken[rng.integers(len(broken))] = rng.integers(256)
        damaged.append(bytes(broken))
    for one in damaged:
        try:
            assert decode_portrait(one).dtype == np.uint8
        except PortraitError as error:
            assert "\n" not in str(error)


def test_a_moving_avif_is_no_still():
    data = encode(scene(), "AVIF", save_all=True, append_images=[Image.new("RGB", (160, 200))])
    with pytest.raises(PortraitError) as caught:
        decode_portrait(data)
    assert caught.value.code == "portrait_animated"


def test_colours_that_an_avif_names_by_numbers_become_srgb():
    data = bytearray(encode(Image.new("RGB", (160, 160), (158, 142, 135)), "AVIF"))
    at = data.index(b"colrnclx") + 8
    data[at : at + 4] = bytes([0, 9, 0, 18])
    assert claimed_colour(bytes(data)) == (9, 18)
    assert np.abs(decode_portrait(bytes(data))[80, 80].astype(int) - (202, 163, 154)).max() <= 6


HDR_SKIN = {(12, 13): (194, 165, 155), (9, 18): (159, 143, 135), (9, 16): (130, 123, 120)}
"""(primaries, transfer) -> the levels that stand for sRGB (202, 163, 154)."""


@pytest.mark.parametrize("numbers", HDR_SKIN)
def test_colours_that_a_png_names_by_numbers_become_srgb(numbers):
    plain = encode(Image.new("RGB", (160, 200), HDR_SKIN[numbers]), "PNG")
    body = b"cICP" + bytes((*numbers, 0, 1))
    named = plain[:33] + struct.pack(">I", 4) + body + struct.pack(">I", zlib.crc32(body)) + plain[33:]
    assert claimed_colour(plain) is None and claimed_colour(named) == numbers
    np.testing.assert_array_equal(decode_portrait(plain)[0, 0], HDR_SKIN[numbers])
    assert np.abs(decode_portrait(named).astype(int) - (202, 163, 154)).max() <= 6


def display_p3():
    """An ICC profile of Display P3, written by hand: D50-adapted primaries and the curve of sRGB."""
    base = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    adapted = {
        b"rXYZ": (0.51512, 0.2412, -0.00105),
        b"gXYZ": (0.29198, 0.69225, 0.04189),
        b"bXYZ": (0.1571, 0.06657, 0.78407),
    }
    for number in range(int.from_bytes(base[128:132], "big")):
        entry = 132 + 12 * number
        if bytes(base[entry : entry + 4]) in adapted:
            at = int.from_bytes(base[entry + 4 : entry + 8], "big") + 8
            for axis, value in enumerate(adapted[bytes(base[entry : entry + 4])]):
                base[at + 4 * axis : at + 4 * axis + 4] = round(value * 65_536).to_bytes(4, "big", signed=True)
    return bytes(base)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "HEIF", "AVIF"])
def test_display_p3_profiles(kind):
    """sRGB 200,100,80 is 187,105,85 in Display P3 (both curves are sRGB's)."""
    linear = lambda v: ((v / 255 + 0.055) / 1.055) ** 2.4  # noqa: E731
    to_p3 = np.array([[0.82246, 0.17754, 0.0], [0.03319, 0.96681, 0.0], [0.01708, 0.0724, 0.91052]])
    seen = np.array([200.0, 100.0, 80.0])
    stored = 255 * (1.055 * (to_p3 @ linear(seen)) ** (1 / 2.4) - 0.055)
    image = Image.new("RGB", (160, 160), tuple(int(round(value)) for value in stored))
    rgb = decode_portrait(encode(image, kind, icc_profile=display_p3()))
    assert np.abs(rgb[80, 80].astype(int) - seen).max() <= 4


def test_unequal_dots_per_inch_do_not_squash_a_picture():
    assert decode_portrait(encode(scene(), "JPEG", dpi=(72, 144))).shape == (200, 160, 3)
