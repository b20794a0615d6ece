"""The 21 control points of the `mini` family: the one table that training and the mesh renderer share.

A motion vector carries `exp` (21, 3): the offset of every control point from the avatar's *neutral* face (lips just closed,
eyes open as in the source picture, brows at rest). Axes are the face's own: x to the viewer's right, y down (towards the chin),
z away from the viewer. Every point has its own unit, so that one motion fits every face:

* `MOUTH`: one neutral mouth width (outer corner to outer corner);
* `EYE_OPENING`: that eye's own lid gap in the source picture (1.0 down on an upper lid means fully shut);
* `EYE_WIDTH`: that eye's corner-to-corner distance;
* `FACE_HEIGHT`: forehead top (mesh 10) to chin (mesh 152).

`right` and `left` are the subject's own; the subject's right is on the viewer's left. Mesh numbers are those of the public
468-point face mesh topology.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What an offset of 1.0 means for a control point."""

    MOUTH = "mouth_width"
    EYE_OPENING = "eye_opening"
    EYE_WIDTH = "eye_width"
    FACE_HEIGHT = "face_height"


@dataclass(frozen=True)
class ControlPoint:
    """A control point of the mesh.

    Attributes:
        name: Unique, used as the lookup key.
        anchor: Landmark of the 468-point mesh that the point sits on.
        unit: What an offset of 1.0 means.
    """

    name: str
    anchor: int
    unit: Unit


CONTROL_POINTS: tuple[ControlPoint, ...] = (
    ControlPoint("chin", 152, Unit.MOUTH),
    ControlPoint("lip_upper_mid", 13, Unit.MOUTH),
    ControlPoint("lip_lower_mid", 14, Unit.MOUTH),
    ControlPoint("mouth_corner_right", 61, Unit.MOUTH),
    ControlPoint("mouth_corner_left", 291, Unit.MOUTH),
    ControlPoint("lip_upper_right", 81, Unit.MOUTH),
    ControlPoint("lip_upper_left", 311, Unit.MOUTH),
    ControlPoint("lip_lower_right", 178, Unit.MOUTH),
    ControlPoint("lip_lower_left", 402, Unit.MOUTH),
    ControlPoint("cheek_right", 205, Unit.MOUTH),
    ControlPoint("cheek_left", 425, Unit.MOUTH),
    ControlPoint("lid_upper_right", 159, Unit.EYE_OPENING),
    ControlPoint("lid_upper_left", 386, Unit.EYE_OPENING),
    ControlPoint("lid_lower_right", 145, Unit.EYE_OPENING),
    ControlPoint("lid_lower_left", 374, Unit.EYE_OPENING),
    ControlPoint("gaze_right", 33, Unit.EYE_WIDTH),
    ControlPoint("gaze_left", 263, Unit.EYE_WIDTH),
    ControlPoint("brow_inner_right", 55, Unit.FACE_HEIGHT),
    ControlPoint("brow_inner_left", 285, Unit.FACE_HEIGHT),
    ControlPoint("brow_outer_right", 105, Unit.FACE_HEIGHT),
    ControlPoint("brow_outer_left", 334, Unit.FACE_HEIGHT),
)

INDEX: dict[str, int] = {point.name: i for i, point in enumerate(CONTROL_POINTS)}
"""Control point name -> row of `exp`."""
