"""A picture or a template video -> an `Avatar` of the family `ditto`: features, source motion, crops, put-back maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from engines.ditto import FAMILY
from engines.ditto.config import DittoConfig
from engines.ditto.source_reader import INPUT_SIDE, SourceReader
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.clip_frames import DEFAULT_MAX_FRAMES, template_frames
from pipeline.avatars.face_crop import fit_canvas
from pipeline.avatars.portrait import DEFAULT_LIMITS, PortraitLimits, decode_portrait
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.ditto.avatar_tensors import DittoTensors, pack_motion_rows
from pipeline.ditto.blend_mask import blend_mask
from pipeline.ditto.crop_geometry import CropMatrices, crop_matrices, face_square, transform_points
from pipeline.ditto.eye_state import eye_ball, eye_open, with_irises
from pipeline.ditto.face_landmarks import FaceLandmarker, FoundFace
from pipeline.ditto.motion_fields import smooth_fields
from pipeline.ditto.speaker import make_speaker
from pipeline.session.moving_canvas import crop_rect
from pipeline.types import CROP_SIZE, Avatar, FaceRect


@dataclass(frozen=True)
class SourceModels:
    """What registration needs of the weights.

    Attributes:
        reader: Appearance and motion extractor.
        config: Crop, smoothing, condition.
        version: Version of the extractors.
    """

    reader: SourceReader
    config: DittoConfig
    version: str


def register_picture(
    picture: U8 | bytes,
    landmarker: FaceLandmarker,
    models: SourceModels,
    name: str = "",
    limits: PortraitLimits = DEFAULT_LIMITS,
) -> Avatar:
    """Make a presenter of a portrait.

    Args:
        picture: A JPEG, PNG, WebP, HEIC or AVIF file, or decoded pixels uint8 (H, W, 3), RGB, upright.
        landmarker: Finds the face.
        models: The extractors.
        name: For people; it is not part of the identity.
        limits: What to accept of a file.

    Raises:
        PortraitError: Its `code` says why.
    """
    rgb = decode_portrait(picture, limits) if isinstance(picture, bytes) else picture
    canvas = fit_canvas(rgb)
    return make_avatar([canvas], [landmarker.first(canvas)], models, name)


def register_template_video(
    video: Path | bytes,
    landmarker: FaceLandmarker,
    models: SourceModels,
    name: str = "",
    max_frames: int = DEFAULT_MAX_FRAMES,
) -> Avatar:
    """Make a presenter that moves as in a short video; it is played back and forth.

    Args:
        video: An MP4/MOV or WebM/Matroska file, or its content; the face is in every frame.
        landmarker: Finds and follows the face.
        models: The extractors.
        name: For people; it is not part of the identity.
        max_frames: Frames at 25 frames/s to take.

    Raises:
        PortraitError: Its `code` says why.
    """
    canvases: list[U8] = []
    faces: list[FoundFace] = []
    for canvas in template_frames(video, max_frames):
        faces.append(landmarker.following(canvas, faces[-1]) if faces else landmarker.first(canvas))
        canvases.append(canvas)
    if not canvases:
        raise PortraitError("portrait_unreadable", "no frame", "a video", "the video holds no frame")
    return make_avatar(canvases, faces, models, name)


def make_avatar(canvases: Sequence[U8], faces: Iterable[FoundFace], models: SourceModels, name: str = "") -> Avatar:
    """An avatar from canvases and faces that are known already.

    Args:
        canvases: One picture, or the frames of a template video; uint8 (H, W, 3), even sides, all of one size.
        faces: Their faces.
        models: The extractors.
        name: For people.

    Raises:
        InvalidInputError: No canvas, or a configuration that live sessions cannot use.
        ShapeError: An array has the wrong shape or type.
    """
    if not canvases:
        raise InvalidInputError("canvases", "none", "at least one")
    config, is_image = models.config, len(canvases) == 1
    matrices: list[CropMatrices] = []
    meshes: list[F32] = []
    readings = []
    for canvas, face in zip(canvases, faces, strict=True):
        square = face_square(face.crop_points, scale=config.crop_scale, shift_down=config.crop_vy_ratio)
        maps = crop_matrices(square, CROP_SIZE, turn=config.crop_flag_do_rot)
        matrices.append(maps)
        meshes.append(_in_crop(face.mesh, maps))
        readings.append(models.reader.read(_network_input(canvas, maps)))
    motion = smooth_fields([reading.motion for reading in readings], config.smo_k_s)
    eyes = with_irises(np.stack(meshes))
    to_frame = np.stack([maps.to_image[:2] for maps in matrices]).astype(np.float32)
    tensors = DittoTensors(
        volumes=np.stack([reading.volume for reading in readings]),
        motion=pack_motion_rows(motion),
        crop_to_frame=to_frame,
        frames=None if is_image else np.stack(canvases),
        speaker=make_speaker(motion, eye_open(eyes), eye_ball(eyes), config, is_image),
        blink_gaps=config.delta_eye_open_n,
        version=models.version,
    )
    height, width = canvases[0].shape[:2]
    avatar = Avatar(
        avatar_id="",
        family=FAMILY,
        name=name,
        canvas_rgb=canvases[0],
        rect=crop_rect(to_frame[0], width, height) if is_image else FaceRect(0, 0, width, height),
        crop_to_canvas=to_frame[0],
        mask=blend_mask(),
        tensors=tensors.pack(),
    )
    check_avatar(avatar)
    return replace(avatar, avatar_id=content_id(avatar))


def _network_input(canvas: U8, maps: CropMatrices) -> F32:
    """The crop as the networks see it: float32 (256, 256, 3), RGB 0..1, black outside the canvas."""
    crop = cv2.warpAffine(canvas, maps.to_crop[:2], (CROP_SIZE, CROP_SIZE), flags=cv2.INTER_LINEAR)
    small = cv2.resize(crop, (INPUT_SIDE, INPUT_SIDE), interpolation=cv2.INTER_AREA)
    return small.astype(np.float32) / np.float32(255.0)


def _in_crop(mesh: F32, maps: CropMatrices) -> F32:
    """The mesh in crop coordinates 0..1, z on the scale of x."""
    flat = transform_points(mesh[:, :2], maps.to_crop)
    zoom = float(np.hypot(*maps.to_crop[:2, 0]))
    return (np.concatenate([flat, mesh[:, 2:] * zoom], axis=1) / CROP_SIZE).astype(np.float32)
