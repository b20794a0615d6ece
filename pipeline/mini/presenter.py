"""The presenters of the family `mini` that come with the project: made once per machine and drawing, then read from the store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pipeline.avatars.manifest import BundleError
from pipeline.gallery.pictures import NAMES, gallery_version, read_picture
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


def make_gallery(store: AvatarStore) -> None:
    """Put the presenters of the gallery that are missing into a store; one that cannot be written keeps what it has."""
    with suppress(BundleError):
        for name in NAMES:
            gallery_avatar(store, name)


def gallery_avatar(store: AvatarStore, name: str) -> Avatar:
    """A presenter of the gallery: from the store, or made of its picture and put there.

    Raises:
        InvalidInputError: There is no such presenter.
        BundleError: The store cannot be written.
    """

    def make() -> Avatar:
        picture = read_picture(name)
        return make_avatar(picture.rgb, picture.landmarks, name, picture.person)

    return keep_presenter(store, f".gallery-{name.lower()}.json", gallery_version(), make)


def _draw() -> Avatar:
    drawing = draw_presenter()
    return make_avatar(drawing.rgb, drawing.landmarks, DEFAULT_NAME, draw_outline())
