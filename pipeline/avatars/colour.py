"""Colours of phones and cameras (HLG, PQ, BT.2020, Display P3) -> sRGB, for pictures and clips that name them by CICP numbers.

Transfer and primaries are numbered as in ITU-T H.273. Neutral colours and faces of ordinary
brightness keep their levels; what is brighter than white is rolled off.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32, F64, U8, U16

PQ: Final = 16
HLG: Final = 18
BT709: Final = 1
PRIMARIES: Final = {
    1: ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    5: ((0.640, 0.330), (0.290, 0.600), (0.150, 0.060)),
    6: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070)),
    7: ((0.630, 0.340), (0.310, 0.595), (0.155, 0.070)),
    9: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    12: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
    22: ((0.630, 0.340), (0.295, 0.605), (0.155, 0.077)),
}
"""Chromaticities of red, green and blue; white is D65 in all of them. Others are taken for BT.709."""
LINEAR: Final = 8
GAMMAS: Final = {4: 2.2, 5: 2.8, 13: 2.2}
"""Plain powers; every other transfer of ordinary brightness is taken for the 2.4 of BT.1886."""
VIDEO_GAMMA: Final = 2.4
WHITE_NITS: Final = 203.0
"""Reference white of PQ and HLG programmes, ITU-R BT.2408; it becomes the white of sRGB."""
HLG_WHITE: Final = 0.75
HLG_DISPLAY_NITS: Final = 500.0
"""Display for which HLG is rendered: its gamma (ITU-R BT.2100) lies between the scene's own and that of a studio monitor."""
KNEE: Final = 0.9
"""Share of white from which on brighter light is rolled off instead of cut."""
BAND_ROWS: Final = 128
"""Rows that are converted at a time, which bounds the memory."""
_WHITE_XY: Final = (0.3127, 0.3290)


def needs_conversion(primaries: int, transfer: int) -> bool:
    """Whether colours of these numbers look different when they are taken for sRGB."""
    return transfer in (PQ, HLG, LINEAR) or (primaries in PRIMARIES and primaries != BT709)


def to_srgb(rgb: U8 | U16, primaries: int, transfer: int) -> U8:
    """Convert a picture. PQ needs its 16 bits: 8 of them are up to 10 levels of sRGB apart.

    Args:
        rgb: uint8 or uint16 (h, w, 3), R'G'B' of full range, encoded as the numbers say.
        primaries: H.273 colour primaries.
        transfer: H.273 transfer characteristics.

    Returns:
        uint8 (h, w, 3), sRGB.
    """
    out = np.empty(rgb.shape, np.uint8)
    largest = float(np.iinfo(rgb.dtype).max)
    for top in range(0, len(rgb), BAND_ROWS):
        band = rgb[top : top + BAND_ROWS]
        level = band.reshape(-1, 3).astype(np.float32) / np.float32(largest)
        if needs_conversion(primaries, transfer):
            level = converted(level, primaries, transfer)
        out[top : top + BAND_ROWS] = np.rint(level * np.float32(255)).reshape(band.shape)
    return out


def converted(encoded: F32, primaries: int, transfer: int) -> F32:
    """float32 (n, 3) of 0..1 -> float32 (n, 3), sRGB of 0..1; see `to_srgb`."""
    to_709 = (np.linalg.inv(_to_xyz(BT709)) @ _to_xyz(primaries)).astype(np.float32)
    if transfer in (PQ, HLG):
        light = _pq_light(encoded) if transfer == PQ else _hlg_light(encoded, _to_xyz(primaries)[1])
        return _srgb_encoded(_rolled_off(np.maximum(light @ to_709.T, 0.0)))
    if transfer == LINEAR:
        return _srgb_encoded(np.clip(encoded @ to_709.T, 0.0, 1.0))
    gamma = GAMMAS.get(transfer, VIDEO_GAMMA)
    seen = np.clip(encoded ** np.float32(gamma) @ to_709.T, 0.0, 1.0) ** np.float32(1.0 / gamma)
    return np.asarray(seen, np.float32)


def _to_xyz(primaries: int) -> F64:
    """Matrix from linear RGB to XYZ."""
    columns = np.array([[x / y, 1.0, (1 - x - y) / y] for x, y in PRIMARIES.get(primaries, PRIMARIES[BT709])]).T
    x, y = _WHITE_XY
    return np.asarray(columns * np.linalg.solve(columns, [x / y, 1.0, (1 - x - y) / y]), np.float64)


def _pq_light(encoded: F32) -> F32:
    """SMPTE ST 2084, relative to reference white."""
    m1, m2 = 2610 / 16384, 2523 / 4096 * 128
    c1, c2, c3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
    root = encoded ** np.float32(1 / m2)
    share = np.maximum(root - np.float32(c1), 0.0) / (np.float32(c2) - np.float32(c3) * root)
    return np.asarray(share ** np.float32(1 / m1) * np.float32(10_000 / WHITE_NITS), np.float32)


def _hlg_light(encoded: F32, luminance: F64) -> F32:
    """ITU-R BT.2100 HLG with the gamma of a display of `HLG_DISPLAY_NITS`, relative to reference white."""
    gamma = 1.2 + 0.42 * np.log10(HLG_DISPLAY_NITS / 1000)
    scene = _hlg_scene(encoded)
    bright = np.maximum(scene @ luminance.astype(np.float32), 1e-9)[:, None]
    white = float(_hlg_scene(np.full(1, HLG_WHITE, np.float32))[0])
    return np.asarray(scene * bright ** np.float32(gamma - 1) / np.float32(white**gamma), np.float32)


def _hlg_scene(encoded: F32) -> F32:
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(encoded <= 0.5, encoded**2 / 3, (np.exp((encoded - c) / a) + b) / 12)


def _rolled_off(light: F32) -> F32:
    above = np.maximum(light - KNEE, 0.0)
    return np.where(light <= KNEE, light, KNEE + (1 - KNEE) * (1 - np.exp(-above / (1 - KNEE))))


def _srgb_encoded(light: F32) -> F32:
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)
