"""The session's own picture: the still canvas of an avatar, into which face rectangles are copied."""

from __future__ import annotations

from kernels.errors import ShapeError
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.types import Avatar, Nv12Canvas, Nv12Rect


class CanvasPainter:
    """Owns one NV12 canvas and paints each frame's rectangle over the last one's.

    Args:
        avatar: The avatar whose still picture lies under the face.
        colour: "bt709" or "bt601", as the rectangles were made.
    """

    def __init__(self, avatar: Avatar, colour: str) -> None:
        y_plane, uv_plane = rgb_to_nv12(avatar.canvas_rgb, colour=colour)
        self._canvas = Nv12Canvas(y_plane, uv_plane)

    @property
    def canvas(self) -> Nv12Canvas:
        """The picture as it stands; the same arrays are painted again and again."""
        return self._canvas

    def paint(self, rect: Nv12Rect) -> Nv12Canvas:
        """Copy a rectangle in and return the picture, valid until the next `paint`.

        Raises:
            ShapeError: The rectangle does not lie on the canvas.
        """
        paste(self._canvas, rect)
        return self._canvas


def paste(canvas: Nv12Canvas, rect: Nv12Rect) -> None:
    """Copy a rectangle into a picture, in place, and then what lies over it.

    Raises:
        ShapeError: The rectangle does not lie on the canvas.
    """
    if rect.x + rect.w > canvas.width or rect.y + rect.h > canvas.height:
        raise ShapeError("rect", f"{rect.w}x{rect.h} at {rect.x},{rect.y}", f"inside {canvas.width}x{canvas.height}")
    canvas.y_plane[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w] = rect.y_plane
    canvas.uv_plane[rect.y // 2 : (rect.y + rect.h) // 2, rect.x : rect.x + rect.w] = rect.uv_plane
    if rect.over is not None:
        paste(canvas, rect.over)
