"""The light of a portrait, seen on its face: what is drawn into the mouth has to lie in the same light.

A face in ordinary light shows a nearly black and a nearly white place (nostrils and pupils, the whites of the eyes and the shine
of the skin) and a skin colour that people have, whatever their skin. What lies outside of that is taken for light: too little
of it, haze, a coloured lamp, or a picture without colours. Ordinary light leaves drawn colours as they are, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.face import topology
from engines.mini.easing import smoothstep
from engines.mini.face_frame import FaceFrame
from kernels.arrays import F64, U8

LUMA: Final = np.array([0.299, 0.587, 0.114])
ORDINARY_RANGE: Final = 120.0
"""Levels between the darkest and the brightest places of a face in ordinary light; 126 to 205 on ordinary pictures of any skin."""
ORDINARY_BLACK: Final = 64.0
"""The darkest place of a face in ordinary light is at most this bright; 5 to 61 on ordinary pictures."""
SKIN_LOW: Final = np.array([1.00, 0.85, 0.60])
SKIN_HIGH: Final = np.array([1.45, 1.02, 1.00])
"""Skin's red, green and blue over their mean in white light; 1.04 to 1.41, 0.87 to 1.00 and 0.64 to 0.98 on ordinary pictures."""
HIDDEN_CAST: Final = 1.25
"""A coloured light leaves the colours of skin by this factor less than it is strong."""
ONE_HUE: Final = (0.010, 0.022)
"""How far colours stray from a line over the brightness, as a share of the face's brightness: below, a picture in one hue (black
and white 0.000, sepia 0.009); above, one in colours (0.029 in haze, 0.034 to 0.123 otherwise)."""
_CHEEKS_AND_NOSE: Final = (50, 280, 205, 425, 117, 346, 4, 151)


@dataclass(frozen=True)
class PortraitLight:
    """How a colour as it is in ordinary light looks in the portrait's.

    Attributes:
        lift: Level of black, 0..255; above 0 in a hazy picture.
        gain: Share of the ordinary range of brightness, above 0 up to 1.
        cast: float64 (3,), colour of the light, mean 1.
        hue: float64 (3,), colour of a picture in one hue, luma 1.
        one_hue: 1 where the picture has one hue only (black and white, sepia), 0 where it has colours.
        skin: float64 (3,), the brighter skin of the cheeks as it would be with neither lift nor gain, 0..255.
    """

    lift: float
    gain: float
    cast: F64
    hue: F64
    one_hue: float
    skin: F64

    @property
    def tone(self) -> F64:
        """Exposure and tint of the skin, (3,), about 0.6..1.05: what teeth and tongue take on in ordinary light."""
        exposure = float(np.clip(self.skin.mean() / 175.0, 0.55, 1.04))
        tint = self.skin / max(float(self.skin.mean()), 1.0)
        result: F64 = exposure * (1.0 + 0.34 * (tint - np.array([1.18, 0.96, 0.86])))
        return result

    def on(self, rgb: F64) -> F64:
        """Colours (..., 3) of ordinary light, 0..255 -> as they look in the portrait, less `lift`.

        Haze lies in front of shadows too, so it is added when all shadows are drawn.
        """
        seen = rgb * self.cast
        seen = seen + self.one_hue * ((rgb @ LUMA)[..., None] * self.hue - seen)
        result: F64 = self.gain * seen
        return result

    def off(self, rgb: F64) -> F64:
        """Inverse of `on`, but for a picture in one hue, whose colours are lost: these become shades of it."""
        result: F64 = rgb / self.gain / self.cast
        return result


def measure_light(frame: FaceFrame, crop: U8) -> PortraitLight:
    """Measure the light on one face.

    Args:
        frame: The face's landmarks.
        crop: uint8 (512, 512, 3), RGB.
    """
    oval = np.zeros(crop.shape[:2], np.uint8)
    cv2.fillPoly(oval, [np.round(frame.points[list(topology.FACE_OVAL)]).astype(np.int32)], 1)
    face = crop[oval > 0].astype(np.float64)
    luma = face @ LUMA
    black, white = np.percentile(luma, [0.5, 99.0])
    gain = float(np.clip((white - black) / ORDINARY_RANGE, 0.02, 1.0))
    lift = max(0.0, float(black) - ORDINARY_BLACK * gain)
    gain = min(gain, (255.0 - lift) / 255.0)

    places = np.clip(np.round(frame.points[list(_CHEEKS_AND_NOSE)]), 0, crop.shape[0] - 1).astype(int)
    blurred = cv2.GaussianBlur(crop, (0, 0), 3.0)
    skin = np.percentile(blurred[places[:, 1], places[:, 0]].astype(np.float64), 70, axis=0)
    skin = np.maximum(skin - lift, 0.0) / gain
    tint = skin / max(float(skin.mean()), 1.0)
    beyond = np.maximum(tint, 0.05) / np.clip(tint, SKIN_LOW, SKIN_HIGH)
    cast = beyond * np.clip(beyond, 1.0 / HIDDEN_CAST, HIDDEN_CAST)
    middle = np.maximum(np.median(face, axis=0) - lift, 0.5)
    spread = _hue_spread(face, luma) / max(float(np.median(luma)) - lift, 1.0)
    return PortraitLight(
        lift,
        gain,
        cast / cast.mean(),
        middle / (middle @ LUMA),
        float(1.0 - smoothstep(*ONE_HUE, np.array(spread))),
        skin,
    )


def _hue_spread(face: F64, luma: F64) -> float:
    """How far red and blue stray from a straight line over the brightness, levels; (n, 3), (n,)."""
    line = np.stack([np.ones_like(luma), luma], axis=1)
    chroma = face[:, [0, 2]] - luma[:, None]
    fit = np.linalg.lstsq(line, chroma, rcond=None)[0]
    return float(np.sqrt(np.mean((chroma - line @ fit) ** 2)))
