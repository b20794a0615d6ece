"""Landmark index lists of the public 468-point face mesh, as the mesh renderer uses them.

"Right" and "left" are the subject's own; lists run from the subject's right (the viewer's left) to the left. The paired lip lists
have 11 points each, corner to corner, and point k of one faces point k of the other.
"""

from __future__ import annotations

from typing import Final

LANDMARKS: Final = 468

UPPER_LIP_INNER: Final = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308)
LOWER_LIP_INNER: Final = (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308)
UPPER_LIP_OUTER: Final = (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291)
LOWER_LIP_OUTER: Final = (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291)

RIGHT_EYE_UPPER: Final = (33, 246, 161, 160, 159, 158, 157, 173, 133)
RIGHT_EYE_LOWER: Final = (33, 7, 163, 144, 145, 153, 154, 155, 133)
LEFT_EYE_UPPER: Final = (362, 398, 384, 385, 386, 387, 388, 466, 263)
LEFT_EYE_LOWER: Final = (362, 382, 381, 380, 374, 373, 390, 249, 263)

RIGHT_BROW: Final = (70, 63, 105, 66, 107, 55, 65, 52, 53, 46)
LEFT_BROW: Final = (336, 296, 334, 293, 300, 276, 283, 282, 295, 285)
BROW_WEIGHTS: Final = (
    ((55, 285), 1.0, 0.0), ((107, 336), 1.0, 0.0), ((65, 295), 0.6, 0.4), ((66, 296), 0.5, 0.5),
    ((105, 334), 0.0, 1.0), ((52, 282), 0.1, 0.9), ((63, 293), 0.0, 0.85), ((53, 283), 0.0, 0.7),
    ((70, 300), 0.0, 0.5), ((46, 276), 0.0, 0.4), ((108, 337), 0.5, 0.1), ((69, 299), 0.2, 0.4), ((104, 333), 0.0, 0.5),
)  # fmt: skip
"""(right, left) landmark, share of the inner brow's motion, share of the outer brow's."""

FACE_OVAL: Final = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip

NOSE: Final = (1, 2, 4, 5, 6, 168, 195, 197, 98, 327, 48, 278, 115, 344)
NOSE_BASE: Final = (98, 97, 2, 326, 327)

DEPTH_LANDMARKS: Final = (33, 133, 263, 362, 61, 291, 0, 17, 205, 425, 151, 9, 50, 280)
"""Further landmarks that shape the smooth depth of the head."""

FOREHEAD_TOP: Final = 10
CHIN: Final = 152
FACE_SIDE_RIGHT: Final = 234
FACE_SIDE_LEFT: Final = 454
CORNER_RIGHT: Final = 61
CORNER_LEFT: Final = 291
EYE_OUTER_RIGHT: Final = 33
EYE_OUTER_LEFT: Final = 263

JAW_WEIGHTS: Final[dict[int, float]] = {
    152: 1.0, 148: 0.98, 377: 0.98, 176: 0.94, 400: 0.94, 149: 0.88, 378: 0.88, 150: 0.76, 379: 0.76,
    136: 0.60, 365: 0.60, 172: 0.42, 397: 0.42, 58: 0.22, 288: 0.22, 132: 0.09, 361: 0.09,
    199: 1.0, 175: 1.0, 200: 1.0, 208: 0.95, 428: 0.95, 171: 0.98, 396: 0.98, 32: 0.92, 262: 0.92,
    210: 0.72, 430: 0.72, 214: 0.48, 434: 0.48, 192: 0.30, 416: 0.30, 138: 0.44, 367: 0.44, 215: 0.26, 435: 0.26,
    177: 0.12, 401: 0.12, 147: 0.08, 376: 0.08, 213: 0.16, 433: 0.16,
}  # fmt: skip
"""Share of the chin's motion that each landmark of the lower face follows when the jaw opens."""
