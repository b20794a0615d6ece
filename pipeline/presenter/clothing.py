"""A navy blazer with notched lapels over an ivory blouse, and a small lapel microphone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import mirrored, outline, spline
from pipeline.presenter.raster import Window, blur, bump, over, rgb, smooth_noise, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin

SHOULDERS_HALF = [
    (0.0, 1.28),
    (0.18, 1.170),
    (0.290, 1.150),
    (0.41, 1.255),
    (0.55, 1.325),
    (0.69, 1.392),
    (0.80, 1.475),
    (0.865, 1.60),
    (0.895, 1.80),
    (0.93, 2.15),
    (0.98, 2.90),
    (0.0, 2.95),
]
BLOUSE_HALF = [
    (0.0, 1.585),
    (0.07, 1.50),
    (0.165, 1.365),
    (0.240, 1.250),
    (0.30, 1.180),
    (0.42, 1.40),
    (0.42, 2.2),
    (0.0, 2.9),
]
LAPEL = [
    (0.236, 1.125),
    (0.318, 1.160),
    (0.425, 1.325),
    (0.490, 1.440),
    (0.418, 1.476),
    (0.484, 1.550),
    (0.385, 1.870),
    (0.170, 2.230),
    (0.004, 2.440),
    (0.060, 2.200),
    (0.140, 1.840),
    (0.208, 1.520),
    (0.236, 1.32),
]
NAVY = rgb("232d42")
Shirt = Callable[[F32, Window, np.random.Generator], None]


@dataclass(frozen=True)
class Suit:
    """What is worn: colours float32 (3,), sRGB 0..1.

    Attributes:
        cloth: Of the blazer.
        blouse: Of the blouse below it.
        shirt: Paints what is worn in place of the blouse on a view of the board, from the window and chance.
        necklace: Whether a thin gold chain is worn.
        microphone: Whether a small microphone sits on the lapel.
    """

    cloth: F32 = field(default_factory=lambda: NAVY)
    blouse: F32 = field(default_factory=lambda: rgb("efe6da"))
    shirt: Shirt | None = None
    necklace: bool = True
    microphone: bool = True

    def tone(self, hex_code: str) -> F32:
        """A colour that was chosen for the navy blazer, on this one; float32 (3,)."""
        return np.asarray(np.minimum(rgb(hex_code) * (self.cloth / NAVY), 1.0), dtype=np.float32)

    def blouse_tone(self, hex_code: str) -> F32:
        """A colour that was chosen for the ivory blouse, on this one; float32 (3,)."""
        return np.asarray(np.minimum(rgb(hex_code) * (self.blouse / rgb("efe6da")), 1.0), dtype=np.float32)


def _cloth(window: Window, base: F32, rng: np.random.Generator, weave: float) -> F32:
    u, v = window.grid()
    cloth = np.empty((*u.shape, 3), np.float32)
    light = 1.02 - 0.42 * smoothstep(-0.8, 1.0, u) - 0.10 * smoothstep(1.5, 2.6, v)
    folds = smooth_noise(rng, (u.shape[0], u.shape[1]), 60.0) * 0.05
    cloth[:] = base * (light + folds)[..., None]
    cloth *= (1.0 + weave * smooth_noise(rng, (u.shape[0], u.shape[1]), 0.8))[..., None]
    return cloth


def _blouse(view: F32, window: Window, rng: np.random.Generator, suit: Suit, skin: Skin) -> None:
    u, v = window.grid()
    shape = spline(outline(BLOUSE_HALF), 300, closed=True)
    over(view, skin.tone("5b3328"), 0.42 * window.polygon(shape - (0.0, 0.010), soft=5.0))
    cloth = _cloth(window, suit.blouse, rng, 0.004)
    for k, (u0, tilt) in enumerate(((-0.16, 0.12), (-0.08, 0.07), (0.02, 0.0), (0.09, -0.06), (0.17, -0.12))):
        along = (u - u0 - tilt * (v - 1.6)) / np.float32(0.016 + 0.003 * k)
        fold = np.exp(-0.5 * along**2) - np.exp(-0.5 * (along - 1.6) ** 2)
        cloth -= (0.045 * fold * smoothstep(1.42, 1.75, v))[..., None]
    cloth *= (1.0 - 0.32 * smoothstep(0.10, 0.26, np.abs(u) - 0.02 * (v - 1.5)))[..., None]
    mask = window.polygon(shape, soft=0.8)
    over(view, cloth, mask)
    edge = spline(BLOUSE_HALF[:5], 80)
    for points in (edge, edge * (-1.0, 1.0)):
        over(view, suit.blouse_tone("fffaf2"), 0.55 * window.line(points + (0.0, 0.006), 3.0, soft=1.0))
        over(view, suit.blouse_tone("9c8a7a"), 0.45 * window.line(points + (0.0, 0.022), 1.6, soft=0.9))


def _jacket(view: F32, window: Window, rng: np.random.Generator, suit: Suit) -> None:
    u, v = window.grid()
    body = spline(outline(SHOULDERS_HALF), 400, closed=True)
    opening = spline(
        [
            (0.0, 2.42),
            (0.090, 2.12),
            (0.205, 1.62),
            (0.250, 1.34),
            (0.238, 1.10),
            (0.0, 1.0),
            (-0.238, 1.10),
            (-0.250, 1.34),
            (-0.205, 1.62),
            (-0.090, 2.12),
        ],
        300,
        closed=True,
    )
    mask = window.polygon(body, soft=1.2) * (1.0 - window.polygon(opening, soft=0.8))
    cloth = _cloth(window, suit.cloth, rng, 0.020)
    top = np.interp(np.abs(u), *np.array(spline(SHOULDERS_HALF[2:9], 120)).T).astype(np.float32)
    depth = v - top
    cloth += (0.085 * np.exp(-np.maximum(depth, 0) / 0.05) * smoothstep(0.25, 0.6, np.abs(u)))[..., None] * rgb(
        "a9bede"
    )
    cloth += (0.30 * np.exp(-np.maximum(depth, 0) / 0.016) * smoothstep(0.42, 0.75, u))[..., None] * rgb("6fa8e8")
    cloth += (0.14 * np.exp(-np.maximum(depth, 0) / 0.020) * smoothstep(0.42, 0.75, -u))[..., None] * rgb("ffd2a0")
    for side in (-1.0, 1.0):
        arm = np.exp(-0.5 * ((u * side - 0.640 - 0.05 * np.sin((v - 1.6) * 3.0)) / 0.030) ** 2)
        cloth *= (1.0 - 0.40 * arm * smoothstep(1.62, 1.95, v))[..., None]
        crease = bump(u, v, side * 0.53, 1.80, 0.13, 0.020, side * 28) + bump(
            u, v, side * 0.50, 2.04, 0.14, 0.020, side * 20
        )
        cloth *= (1.0 - 0.16 * crease)[..., None]
        seam = window.line(np.array([(side * 0.640, 1.372), (side * 0.680, 1.50), (side * 0.670, 1.72)]), 1.6, soft=1.2)
        over(cloth, suit.tone("0f1626"), 0.42 * seam)
    over(view, rgb("120d10"), 0.50 * blur(mask, 7.0) * window.polygon(opening, soft=0.8))
    over(view, cloth, mask)


def _lapel(view: F32, window: Window, side: float, rng: np.random.Generator, suit: Suit) -> None:
    u, v = window.grid()
    points = LAPEL if side > 0 else mirrored(LAPEL)
    ring = np.concatenate(
        [spline(points[0:4], 60)[:-1], np.array(points[3:6]), spline(points[5:9], 60)[1:], spline(points[8:], 60)[1:]]
    )
    mask = window.polygon(ring, soft=0.7)
    over(view, rgb("070b14"), 0.55 * window.polygon(ring + (0.006, 0.010), soft=5.0) * (1.0 - 0.0 * mask))
    cloth = _cloth(window, suit.cloth * np.float32(1.10), rng, 0.018)
    rim = mask - blur(mask, 3.0)
    cloth += (0.30 * np.clip(rim, 0.0, 1.0))[..., None] * rgb("9db4dc")
    roll = np.exp(-0.5 * ((np.abs(u) - 0.20 + 0.16 * (v - 1.6)) / 0.045) ** 2) * smoothstep(1.35, 1.7, v)
    cloth += (0.045 * roll)[..., None] * rgb("a9bede")
    over(view, cloth, mask)
    notch = np.array([points[4], (points[0][0] + side * 0.005, points[0][1] + 0.19)])
    over(view, suit.tone("0a101d"), 0.55 * window.line(notch, 1.8, soft=0.8))


def _necklace(view: F32, window: Window) -> None:
    """A thin gold chain with a small round pendant."""
    u, v = window.grid()
    chain = spline(
        [
            (-0.240, 1.125),
            (-0.218, 1.195),
            (-0.170, 1.290),
            (-0.087, 1.388),
            (0.0, 1.425),
            (0.087, 1.388),
            (0.170, 1.290),
            (0.218, 1.195),
            (0.240, 1.125),
        ],
        160,
    )
    over(view, rgb("6a3a28"), 0.40 * window.line(chain + (0.003, 0.006), 3.0, soft=1.6))
    over(view, rgb("b98a45"), 0.85 * window.line(chain, 1.7, soft=0.6))
    glints = 0.5 + 0.5 * np.sin(np.linspace(0, 40 * np.pi, 160))
    over(view, rgb("ffeebf"), 0.70 * window.ribbon(chain - (0.0006, 0.0008), 0.9 * glints, soft=0.5))
    r = np.hypot(u, v - 1.4415) / np.float32(0.0155)
    over(view, rgb("5b3020"), 0.40 * np.exp(-0.5 * (np.hypot(u - 0.005, v - 1.449) / 0.012) ** 2))
    gold = np.empty((*u.shape, 3), np.float32)
    gold[:] = (
        rgb("9a6d30")
        + (rgb("f3d48e") - rgb("9a6d30")) * np.clip(0.55 - (u * 0.8 + (v - 1.4415)) / 0.026, 0, 1)[..., None]
    )
    over(gold, rgb("fff6da"), np.exp(-0.5 * (np.hypot(u + 0.005, v - 1.436) / 0.0032) ** 2))
    over(view, gold, smoothstep(1.06, 0.92, r))


def _microphone(view: F32, window: Window) -> None:
    u, v = window.grid()
    cu, cv = -0.268, 1.640
    over(view, rgb("05070c"), 0.5 * bump(u, v, cu + 0.006, cv + 0.012, 0.016, 0.024, 16))
    over(view, rgb("15181d"), smoothstep(0.55, 0.72, bump(u, v, cu, cv, 0.020, 0.030, 16)))
    over(view, rgb("8e979f"), 0.55 * bump(u, v, cu - 0.006, cv - 0.012, 0.004, 0.007, 16))
    over(view, rgb("2c3138"), 0.9 * window.line(np.array([(cu, cv + 0.03), (cu + 0.008, cv + 0.06)]), 3.0, soft=0.6))


def _pocket(view: F32, window: Window, suit: Suit) -> None:
    """The welt of the breast pocket on the viewer's right."""
    welt = np.array([(0.445, 1.905), (0.640, 1.875), (0.648, 1.925), (0.452, 1.957)])
    over(view, suit.tone("0a0f1a"), 0.38 * window.polygon(welt + (0.002, 0.008), soft=3.5))
    over(view, suit.cloth * np.float32(0.66), window.polygon(welt, soft=1.0))
    over(view, suit.tone("4a5c80"), 0.40 * window.line(welt[:2], 1.4, soft=0.8))


def _closure(view: F32, window: Window, suit: Suit) -> None:
    """Where the fronts overlap, and the button that holds them."""
    u, v = window.grid()
    over(
        view,
        suit.tone("080c15"),
        0.75 * window.line(np.array([(0.0, 2.41), (-0.012, 2.60), (-0.020, 2.80)]), 2.2, soft=1.0),
    )
    over(view, rgb("05080f"), 0.6 * bump(u, v, 0.036, 2.545, 0.028, 0.028))
    r = np.hypot(u - 0.030, v - 2.535) / np.float32(0.030)
    over(view, suit.tone("2f3a52"), smoothstep(1.05, 0.95, r))
    over(
        view,
        suit.tone("5d6c8c"),
        0.8 * np.exp(-0.5 * ((r - 0.86) / 0.09) ** 2) * smoothstep(0.03, -0.03, u - 0.03 + v - 2.535),
    )
    for dx, dy in ((-0.3, -0.3), (0.3, -0.3), (-0.3, 0.3), (0.3, 0.3)):
        over(view, suit.tone("0b101c"), 0.85 * bump(u, v, 0.030 + dx * 0.024, 2.535 + dy * 0.024, 0.0032, 0.0032))


def paint_clothes(board: F32, rng: np.random.Generator, suit: Suit | None = None, skin: Skin = DEFAULT_SKIN) -> None:
    """Paint blouse, blazer, lapels and microphone on `board` in place."""
    suit = suit or Suit()
    window = Window.around(-1.0, 1.12, 1.0, 2.76)
    view = board[window.slices]
    if suit.necklace:
        _necklace(view, window)
    if suit.shirt is None:
        _blouse(view, window, rng, suit, skin)
    else:
        suit.shirt(view, window, rng)
    _jacket(view, window, rng, suit)
    for side in (-1.0, 1.0):
        _lapel(view, window, side, rng, suit)
    _pocket(view, window, suit)
    _closure(view, window, suit)
    if suit.microphone:
        _microphone(view, window)
