"""The six sitters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from training.gallery.people.amara import amara
from training.gallery.people.arjun import arjun
from training.gallery.people.henrik import henrik
from training.gallery.people.ingrid import ingrid
from training.gallery.people.mei import mei
from training.gallery.people.salma import salma
from training.gallery.sitter import Sitter

MAKERS: Final[dict[str, Callable[[], Sitter]]] = {
    "Amara": amara,
    "Arjun": arjun,
    "Henrik": henrik,
    "Ingrid": ingrid,
    "Mei": mei,
    "Salma": salma,
}
"""Name -> what makes the sitter."""
