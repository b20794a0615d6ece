"""An uploaded picture -> upright 8-bit sRGB pixels, or a clear refusal. Hostile files cost bounded time and memory.

Size limits are checked on the header, before any pixel is decoded. A picture at least twice as large as a canvas is averaged
down by a whole factor at once (for JPEG inside the codec), so that the steps after it stay small.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kernels.arrays import U8
from pipeline.avatars.colour import needs_conversion, to_srgb
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import STUDIO_GREY, claimed_colour, claimed_size, sniff

if TYPE_CHECKING:
    from PIL import Image


_READERS: Final = {"JPEG": "JPEG", "PNG": "PNG", "WEBP": "WEBP", "AVIF": "AVIF", "HEIC": "HEIF"}
"""Kind of file -> Pillow's name of its reader."""
ALLOWED_FORMATS: Final = "JPEG, PNG, WebP, HEIC or AVIF, or a short video (MP4, MOV, WebM)"
ENOUGH_PX: Final = 1920
"""Longer side of the largest canvas: reducing never goes below it."""
SCREEN_EXPONENT: Final = 2.2
GAMMAS: Final = (0.1, 4.0)
"""A PNG's exponent beyond these is nonsense and does not count."""
LEAST_GAMMA: Final = 0.05
_EXIF_ORIENTATION: Final = 0x0112
_DECODE_ERRORS: Final = (
    OSError,
    RuntimeError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
    IndexError,
    TypeError,
)
"""What Pillow's readers raise on damaged files."""


@dataclass(frozen=True)
class PortraitLimits:
    """What is accepted: bytes of the file, pixels of the picture, pixels of its shorter side."""

    max_bytes: int = 25 * 2**20
    max_pixels: int = 50_000_000
    min_side_px: int = 128


DEFAULT_LIMITS: Final = PortraitLimits()


def decode_portrait(data: bytes, limits: PortraitLimits = DEFAULT_LIMITS) -> U8:
    """Decode a JPEG, PNG, WebP, HEIC or AVIF picture.

    EXIF rotation (or HEIF's own) is applied, an embedded colour profile is converted to sRGB (CMYK too), and so are colours that
    are named by numbers (BT.2020, PQ, HLG, Display P3) and a PNG's own exponent (W3C PNG, 13.13); alpha is composited over a
    studio grey, grey and 16-bit pictures become 8-bit RGB.

    Args:
        data: The file.
        limits: What to accept.

    Returns:
        uint8 (H, W, 3), RGB, C-contiguous.

    Raises:
        PortraitError: `portrait_unreadable`, `portrait_unsupported`, `portrait_animated`, `portrait_too_large` or
            `portrait_too_small`.
    """
    from PIL import Image

    _check_bytes(data, limits)
    kind = _check_kind(data, limits)
    if kind == "HEIC":
        _register_heif()
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=[_READERS[kind]])
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:  # two headers that disagree
        raise _too_many_pixels("far too many pixels", limits) from error
    except _DECODE_ERRORS as error:
        raise _unreadable(kind, str(error)) from error
    _check_size(image.width, image.height, limits)
    try:
        if kind not in ("JPEG", "HEIC") and getattr(image, "n_frames", 1) > 1:
            raise PortraitError(
                "portrait_animated", f"an animated {kind}", "a still picture", "the picture is animated; send one still"
            )
        if kind == "JPEG" and _factor(image) > 1:
            image.draft(image.mode, (image.width // _factor(image), image.height // _factor(image)))
        image.load()  # first: reading EXIF would load too, and swallow the error
        colour = claimed_colour(data) if kind in ("PNG", "HEIC", "AVIF") and not image.info.get("icc_profile") else None
        rgb, orientation = _to_rgb(image, None if colour else _gamma_table(image)), _orientation(image)
        return _upright(to_srgb(rgb, *colour) if colour is not None and needs_conversion(*colour) else rgb, orientation)
    except _DECODE_ERRORS as error:
        raise _unreadable(kind, str(error)) from error


@cache
def _register_heif() -> None:
    """Teach Pillow HEIF, once; here, so that importing pipeline stays light."""
    import pillow_heif

    pillow_heif.register_heif_opener()


def _check_bytes(data: bytes, limits: PortraitLimits) -> None:
    allowed = f"1 byte to {limits.max_bytes / 2**20:.0f} MiB"
    if not data:
        raise PortraitError("portrait_unreadable", "0 bytes", allowed, "the file is empty")
    if len(data) > limits.max_bytes:
        got = f"{len(data) / 2**20:.1f} MiB"
        raise PortraitError("portrait_too_large", got, allowed, f"the file has {got}; send a smaller one")


def _check_kind(data: bytes, limits: PortraitLimits) -> str:
    kind = sniff(data)
    if kind in _READERS:
        size = claimed_size(data, kind)
        if size is None or min(size) < 1:
            raise _unreadable(kind, "the header is damaged")
        _check_size(*size, limits)
        return kind
    if kind in ("text", "unknown"):
        got = "a text file" if kind == "text" else "no known kind of picture"
        raise PortraitError("portrait_unreadable", got, ALLOWED_FORMATS, f"the file is {got}, whatever its name says")
    raise PortraitError(
        "portrait_unsupported", kind, ALLOWED_FORMATS, f"{kind} is not supported as a picture; convert it"
    )


def _check_size(width: int, height: int, limits: PortraitLimits) -> None:
    got = f"{width}x{height} px"
    if width * height > limits.max_pixels:
        raise _too_many_pixels(got, limits)
    if min(width, height) < limits.min_side_px:
        allowed = f"at least {limits.min_side_px} px on each side"
        raise PortraitError("portrait_too_small", got, allowed, f"the picture has only {got}; send a larger one")


def _too_many_pixels(got: str, limits: PortraitLimits) -> PortraitError:
    allowed = f"at most {limits.max_pixels / 1e6:.0f} megapixels"
    return PortraitError("portrait_too_large", got, allowed, f"the picture has {got}; scale it down")


def _unreadable(kind: str, reason: str) -> PortraitError:
    detail = f"the {kind} file is damaged or cut short ({reason.strip()[:120] or 'no reason given'}); send it again"
    return PortraitError("portrait_unreadable", f"a damaged {kind}", ALLOWED_FORMATS, detail)


def _orientation(image: Image.Image) -> int:
    """EXIF orientation 1..8; 1 (upright) when there is none or the EXIF block is damaged."""
    try:
        value = image.getexif().get(_EXIF_ORIENTATION, 1)
    except (*_DECODE_ERRORS, KeyError):
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(rgb: U8, orientation: int) -> U8:
    """Undo EXIF orientation: 2..4 mirror or half turn, 5..8 swap the axes first."""
    if orientation >= 5:
        rgb = rgb.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        rgb = rgb[:, ::-1]
    if orientation in (3, 4, 7, 8):
        rgb = rgb[::-1]
    return np.ascontiguousarray(rgb)


def _factor(image: Image.Image) -> int:
    """Whole factor by which the picture can shrink and still fill a canvas."""
    return max(1, max(image.size) // ENOUGH_PX)


def _gamma_table(image: Image.Image) -> list[int] | None:
    """8-bit values of a PNG's own exponent (`gAMA`) -> those of a screen; None where they are that, or where a profile counts."""
    exponent = image.info.get("gamma")
    if not isinstance(exponent, float) or not image.info.keys().isdisjoint(("srgb", "icc_profile")):
        return None
    power = 1 / (exponent * SCREEN_EXPONENT) if GAMMAS[0] <= exponent <= GAMMAS[1] else 1.0
    return None if abs(power - 1) < LEAST_GAMMA else [round(255 * (value / 255) ** power) for value in range(256)]


def _to_rgb(image: Image.Image, gamma: list[int] | None) -> U8:
    """8-bit sRGB pixels of a loaded picture of any mode, alpha composited."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        scale = 255.0 / 65535.0 if image.mode.startswith("I") else 255.0
        grey = np.asarray(image.convert("F").reduce(_factor(image)))
        eight_bit = np.clip(np.rint(grey * scale), 0, 255).astype(np.uint8)
        eight_bit = eight_bit if gamma is None else np.array(gamma, np.uint8)[eight_bit]
        rgb = np.repeat(eight_bit[..., None], 3, axis=2)
        if isinstance(clear := image.info.get("transparency"), int):
            hidden = Image.fromarray(np.asarray(image) == clear).convert("L").reduce(_factor(image))
            rgb = np.asarray(Image.composite(Image.new("RGB", hidden.size, STUDIO_GREY), Image.fromarray(rgb), hidden))
        return rgb
    profile = image.info.get("icc_profile")
    alpha = None
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = (image if image.mode == "RGBA" else image.convert("RGBA")).reduce(_factor(image))
        alpha = image.getchannel("A")
    if image.mode not in ("RGB", "L", "CMYK"):
        image = image.convert("RGB")
    image = image.reduce(_factor(image))
    image = _to_srgb(image, profile) if profile else image.convert("RGB")
    if gamma is not None:
        image = image.point(gamma * 3)
    if alpha is not None:
        image = Image.composite(image, Image.new("RGB", image.size, STUDIO_GREY), alpha)
    return np.asarray(image)


def _to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Convert through an embedded colour profile; a damaged or foreign profile is ignored."""
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return image.convert("RGB")
    return converted if converted is not None else image.convert("RGB")
