"""What the cases of `python -m benchmarks.picture` share: portraits, and the films in which they speak and are silent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import cv2
import numpy as np
from PIL import Image

from benchmarks.core.decode import decode_rgb
from benchmarks.core.record import BenchmarkRecord
from benchmarks.core.run_info import RunInfo
from benchmarks.quality.held_out import held_out_sentences
from benchmarks.quality.local_face import LocalFace, large_presenter_face, presenter_face
from benchmarks.quality.main_job_run import CaseLeftOut
from benchmarks.quality.picture_photos import PHOTOS, darker, load_photo
from benchmarks.quality.speaking import Sentence
from engines.face import topology
from engines.face.mesh import FaceMesh
from engines.face.selfie import SelfieSegmenter
from kernels.arrays import F32, F64, U8
from pipeline.session.local_job import LocalPipeline
from pipeline.types import MOTION_FPS

SUITE: Final = "picture"
SENTENCES: Final = 6
QUICK_SENTENCES: Final = 2
PHOTO_SENTENCES: Final = 2
SILENT_S: Final = 10
BAND_PX: Final = 24


@dataclass(frozen=True)
class Options:
    """What the command line asked for.

    Attributes:
        face_weights: Folder of the face models.
        baseline: Rows of an earlier commit by case.
        baseline_name: What they are.
        quick: Fewest sentences, for a look and not for publishing.
    """

    face_weights: Path
    baseline: dict[str, BenchmarkRecord]
    baseline_name: str
    quick: bool = False


@dataclass(frozen=True)
class Portrait:
    """A presenter to look at.

    Attributes:
        name: For tables.
        face: The presenter.
    """

    name: str
    face: LocalFace

    @property
    def canvas(self) -> U8:
        """The still picture."""
        return self.face.avatar.canvas_rgb

    @property
    def points(self) -> F32:
        """Landmarks (468, 2) on the canvas."""
        matrix = self.face.avatar.crop_to_canvas
        crop = np.asarray(self.face.avatar.tensors["landmarks"], np.float32)[:, :2]
        return np.asarray(crop @ matrix[:, :2].T + matrix[:, 2], dtype=np.float32)

    @property
    def face_px(self) -> float:
        """Forehead top to chin, canvas pixels."""
        points = self.points
        return float(np.linalg.norm(points[topology.CHIN] - points[topology.FOREHEAD_TOP]))

    def near(self, landmark: int, down: float, across: float, tall: float) -> U8:
        """A mask of a box around a place `down` face heights below a landmark; half its width and height in face heights."""
        x, y = self.points[landmark] + (0.0, down * self.face_px)
        mask = np.zeros(self.canvas.shape[:2], np.uint8)
        w, h = across * self.face_px, tall * self.face_px
        mask[max(int(y - h), 0) : max(int(y + h), 0), max(int(x - w), 0) : max(int(x + w), 0)] = 255
        return mask


class PictureJob:
    """Portraits and films, made when a case first asks for them."""

    def __init__(self, options: Options, run: RunInfo) -> None:
        self.options = options
        self.run = run

    @cached_property
    def mesh(self) -> FaceMesh:
        """The face models."""
        return FaceMesh(self.options.face_weights)

    @cached_property
    def pipeline(self) -> LocalPipeline:
        """The product in this process."""
        return LocalPipeline()

    @cached_property
    def drawing(self) -> Portrait:
        """The default presenter."""
        return Portrait("presenter", presenter_face(self.pipeline))

    @cached_property
    def large_drawing(self) -> Portrait:
        """The same on 1080 x 1920."""
        return Portrait("presenter 1080x1920", large_presenter_face(self.pipeline))

    @cached_property
    def photos(self) -> list[Portrait]:
        """The photographs, registered as a user's would be."""
        return [self._register(name, load_photo(name)) for name in PHOTOS]

    @cached_property
    def toothy(self) -> list[Portrait]:
        """Photographs that show teeth: one as it is, and darker."""
        return [self.photos[0], self._register(f"{PHOTOS[0]}, darker", darker(load_photo(PHOTOS[0])))]

    def _register(self, name: str, photo: U8) -> Portrait:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "photo.png"
            Image.fromarray(photo).save(path)
            return Portrait(name, LocalFace(self.pipeline.register(path), self.pipeline))

    @property
    def portraits(self) -> list[Portrait]:
        """Photographs and the drawing."""
        return [*self.photos, self.drawing]

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Held-out sentences and what their labels expect."""
        return held_out_sentences(QUICK_SENTENCES if self.options.quick else SENTENCES)

    @property
    def voices(self) -> list[F32]:
        """Held-out sentences, float32 (n,), 16 kHz."""
        return [sentence.pcm for sentence in self.sentences]

    @cached_property
    def _films(self) -> dict[str, list[U8]]:
        return {}

    def speech(self, portrait: Portrait) -> list[U8]:
        """Decoded frames of a portrait that speaks the first sentences."""
        if portrait.name not in self._films:
            voice = np.concatenate(self.voices[:PHOTO_SENTENCES])
            self._films[portrait.name] = list(decode_rgb(portrait.face.speak(voice)))
        return self._films[portrait.name]

    def silence(self, portrait: Portrait) -> list[U8]:
        """Decoded frames of a portrait that is silent for some breaths."""
        return list(decode_rgb(portrait.face.film(portrait.face.idle(SILENT_S * MOTION_FPS))))

    def background(self, portrait: Portrait) -> U8:
        """Mask of what is neither the person nor close to it.

        Raises:
            CaseLeftOut: The picture has no background.
        """
        matte = SelfieSegmenter(self.options.face_weights).matte(portrait.canvas)
        own = portrait.face.avatar.tensors.get("person")
        if own is not None:  # an exact outline knows more than the network: whatever either calls person is left out
            rect = portrait.face.avatar.rect
            part = matte[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
            np.maximum(part, np.asarray(own, np.uint8), out=part)
        person = cv2.dilate((matte >= 64).astype(np.uint8), np.ones((2 * BAND_PX + 1,) * 2, np.uint8))
        mask = np.where(person > 0, 0, 255).astype(np.uint8)
        if (mask > 0).mean() < 0.02:
            raise CaseLeftOut(f"{portrait.name} fills its picture")
        return mask


def mean_luma_flow(first: U8, other: U8) -> F64:
    """Dense optical flow (Farneback) between two pictures, float64 (H, W, 2), pixels."""
    grey = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (first, other)]
    flow = np.zeros((*grey[0].shape, 2), np.float32)
    flow = cv2.calcOpticalFlowFarneback(grey[0], grey[1], flow, 0.5, 4, 21, 3, 7, 1.5, 0)
    return np.asarray(flow, dtype=np.float64)
