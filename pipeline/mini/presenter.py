"""The default presenter of the family `mini`: drawn once per machine and drawing, then read from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pipeline.mini.registration import make_avatar
from pipeline.presenter.avatar import drawing_version, keep_presenter
from pipeline.presenter.draw import draw_outline, draw_presenter
from pipeline.types import Avatar

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore

DEFAULT_NAME: Final = "Default presenter"
POINTER_FILE: Final = ".default-presenter.json"
"""In the store's folder: which avatar came from which drawing. Losing it only costs a new drawing."""


def default_avatar(store: AvatarStore | None = None) -> Avatar:
    """The default presenter on its 720 x 1280 canvas, made with the crop rules of every registered portrait.

    Drawing takes some seconds and needs no models and no network.

    Args:
        store: Where to keep it: it is drawn when the store does not hold this version of the drawing yet. None draws it anew.

    Returns:
        An avatar of the family `mini`; stored and memory-mapped when `store` is given.

    Raises:
        BundleError: The store cannot be written.
    """
    return _draw() if store is None else keep_presenter(store, POINTER_FILE, drawing_version(), _draw)


def _draw() -> Avatar:
    drawing = draw_presenter()
    return make_avatar(drawing.rgb, drawing.landmarks, DEFAULT_NAME, draw_outline())
