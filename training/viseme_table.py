"""What the lips do for every canonical phone: hand-made targets in the units of `engines.mini.rig`.

Gaps are inner-lip gaps in mouth widths (`engines.mini.rig.mouth_gap`), chosen so that they follow the expected opening of the
lip-sync measures: open vowels 1.0 -> about 0.38, mid 0.6 -> 0.22, close 0.35 -> 0.12, other consonants 0.25 -> 0.10, silence and
/m b p/ 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from training.phones import PHONES


@dataclass(frozen=True)
class Viseme:
    """Lip targets of one phone.

    Attributes:
        gap: Inner-lip gap in mouth widths.
        jaw_share: Part of the gap that the jaw makes; the lips make the rest.
        wide: Action `wide`, 0..1.
        pucker: Action `pucker`, 0..1.
        weight: Dominance of `wide` and `pucker` over the neighbours; small = takes their lip shape.
    """

    gap: float
    jaw_share: float = 0.55
    wide: float = 0.0
    pucker: float = 0.0
    weight: float = 0.15


VISEMES: Final[dict[str, Viseme]] = {
    "sil": Viseme(0.0, weight=0.08),
    # lips closed; the shape belongs to the neighbours
    "m": Viseme(0.0, weight=0.06), "b": Viseme(0.0, weight=0.06), "p": Viseme(0.0, weight=0.06),
    # open vowels
    "ɑ": Viseme(0.395, 0.78, 0.02, 0.0, 0.8), "a": Viseme(0.39, 0.76, 0.12, 0.0, 0.8), "æ": Viseme(0.385, 0.72, 0.35, 0.0, 0.9),
    "ɔ": Viseme(0.365, 0.78, 0.0, 0.42, 0.9), "ʌ": Viseme(0.35, 0.74, 0.05, 0.0, 0.6),
    "aɪ": Viseme(0.385, 0.76, 0.16, 0.0, 0.8), "aʊ": Viseme(0.38, 0.76, 0.0, 0.15, 0.8),
    # mid vowels
    "e": Viseme(0.234, 0.64, 0.50, 0.0, 0.9), "ɛ": Viseme(0.267, 0.66, 0.38, 0.0, 0.8), "eɪ": Viseme(0.251, 0.64, 0.50, 0.0, 0.9),
    "o": Viseme(0.234, 0.70, 0.0, 0.72, 1.0), "oʊ": Viseme(0.24, 0.70, 0.0, 0.70, 1.0), "ø": Viseme(0.218, 0.66, 0.0, 0.62, 0.9),
    "ə": Viseme(0.223, 0.66, 0.08, 0.0, 0.3), "ɜ": Viseme(0.229, 0.66, 0.0, 0.26, 0.6),
    # close vowels
    "i": Viseme(0.138, 0.42, 0.78, 0.0, 1.0), "ɪ": Viseme(0.154, 0.50, 0.42, 0.0, 0.6), "y": Viseme(0.121, 0.55, 0.0, 0.88, 1.1),
    "u": Viseme(0.127, 0.58, 0.0, 0.95, 1.1), "ʊ": Viseme(0.143, 0.60, 0.0, 0.58, 0.8),
    # lower lip to the upper teeth; `lower_tuck` makes most of this gap
    "f": Viseme(0.085, 0.4, 0.08, 0.0, 0.35), "v": Viseme(0.085, 0.4, 0.08, 0.0, 0.35),
    "w": Viseme(0.075, 0.55, 0.0, 1.0, 2.4), "β": Viseme(0.045, 0.4, 0.0, 0.0, 0.1),
    # the rest: a small gap, the lip shape of the neighbours unless they have one of their own
    "t": Viseme(0.095, 0.45, 0.10), "d": Viseme(0.095, 0.45, 0.10), "n": Viseme(0.10, 0.5, 0.10), "l": Viseme(0.125, 0.6, 0.08),
    "s": Viseme(0.085, 0.35, 0.28, 0.0, 0.30), "z": Viseme(0.085, 0.35, 0.28, 0.0, 0.30),
    "ʃ": Viseme(0.095, 0.40, 0.0, 0.58, 1.0), "ʒ": Viseme(0.095, 0.40, 0.0, 0.58, 1.0),
    "tʃ": Viseme(0.09, 0.40, 0.0, 0.50, 0.7), "dʒ": Viseme(0.09, 0.40, 0.0, 0.48, 0.7),
    "θ": Viseme(0.11, 0.55, 0.12, 0.0, 0.2), "ð": Viseme(0.11, 0.55, 0.12, 0.0, 0.2),
    "k": Viseme(0.115, 0.65, 0.05, 0.0, 0.1), "ɡ": Viseme(0.115, 0.65, 0.05, 0.0, 0.1), "ŋ": Viseme(0.115, 0.65, 0.05, 0.0, 0.1),
    "ɹ": Viseme(0.10, 0.55, 0.0, 0.34, 0.4), "j": Viseme(0.10, 0.45, 0.48, 0.0, 0.5), "x": Viseme(0.12, 0.65, 0.05, 0.0, 0.1),
    "h": Viseme(0.13, 0.65, 0.0, 0.0, 0.03),
}  # fmt: skip

GLIDES: Final[dict[str, tuple[float, Viseme]]] = {
    "aɪ": (0.62, Viseme(0.31, 0.68, 0.46, 0.0, 0.8)),
    "aʊ": (0.60, Viseme(0.30, 0.72, 0.0, 0.62, 1.0)),
    "eɪ": (0.60, Viseme(0.207, 0.52, 0.66, 0.0, 0.9)),
    "oʊ": (0.55, Viseme(0.196, 0.62, 0.0, 0.86, 1.0)),
}
"""Diphthongs: the share of the time after which the second target takes over, and that target."""

if set(VISEMES) != set(PHONES):  # a phone without lips, or lips without a phone
    raise AssertionError(set(VISEMES) ^ set(PHONES))
