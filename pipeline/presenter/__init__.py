"""The default presenter: an illustrated news anchor that this project draws itself, with known face-mesh landmarks."""

from __future__ import annotations

from pipeline.presenter.avatar import default_avatar
from pipeline.presenter.draw import PresenterDrawing, draw_presenter

__all__ = ["PresenterDrawing", "default_avatar", "draw_presenter"]
