"""A picture or a short video -> an `Avatar` of the family `mini`.

The canvas is the picture itself, at full resolution up to 1080x1920 (1920x1080 when wider than high); only the face crop is
worked at 512x512. A video gives its best still frame: **`mini` animates that frame, it does not replay the video.**
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.face.mesh import FaceMesh
from engines.face.plausibility import mouth_aperture
from engines.face.selfie import SelfieSegmenter
from engines.mini import FAMILY
from kernels.arrays import F32, U8
from pipeline.avatars.arrays import check_array
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.face_choice import choose_face
from pipeline.avatars.face_crop import crop_square, cut_crop, fit_canvas, soft_mask
from pipeline.avatars.portrait import DEFAULT_LIMITS, PortraitLimits, decode_portrait
from pipeline.avatars.portrait_errors import PortraitError, unreadable
from pipeline.avatars.portrait_header import VIDEO_KINDS, sniff
from pipeline.avatars.video_still import best_stills
from pipeline.mini.avatar_tensors import PERSON
from pipeline.mini.person import moving_rect, person_matte
from pipeline.types import Avatar

CLOSED_APERTURE: Final = 0.12
"""A source whose lips are parted less is closed by the renderer in any case."""
MAX_SILENT_APERTURE: Final = 0.15
"""Largest inner-lip gap over mouth width in silence; sources up to 0.45 come out at 0.03 to 0.11, one that is wide open at 0.35."""
MOVING_BORDER: Final = 14
"""Crop pixels along the border that the picture around it covers where that moves too: there a moved crop has nothing to show."""
_SNIFF_BYTES: Final = 64


def register_portrait(
    picture: U8 | bytes,
    face_mesh: FaceMesh,
    name: str = "",
    limits: PortraitLimits = DEFAULT_LIMITS,
    selfie: SelfieSegmenter | None = None,
) -> Avatar:
    """Make a presenter of a portrait.

    Args:
        picture: A JPEG, PNG, WebP, HEIC or AVIF file, or decoded pixels uint8 (H, W, 3), RGB, upright.
        face_mesh: The networks.
        name: For people; it is not part of the identity.
        limits: What to accept of a file.
        selfie: Finds the person's outline; without it, or where it sees nobody, only the inside of the face crop moves.

    Returns:
        The avatar. `canvas_rgb` is the still picture, untouched where it needed no scaling; `tensors` holds `crop_rgb`,
        `landmarks` and, where it is known, `person` (see `pipeline.types.Avatar`).

    Raises:
        PortraitError: Its `code` says why.
    """
    rgb = decode_portrait(picture, limits) if isinstance(picture, bytes) else picture
    canvas = fit_canvas(rgb)
    face = choose_face(canvas, face_mesh)
    person = None if selfie is None else person_matte(canvas, face.landmarks, selfie)
    avatar = make_avatar(canvas, face.landmarks, name, person)
    if face.mouth_aperture > CLOSED_APERTURE:
        _check_closes(avatar, face_mesh)
    return avatar


def _check_closes(avatar: Avatar, face_mesh: FaceMesh) -> None:
    """Refuse a source whose mouth stays open in silence: lips that are stretched that wide cannot be drawn closed.

    Raises:
        PortraitError: `portrait_mouth_open`.
    """
    import torch  # a source with closed lips needs no renderer

    from engines.mini.mesh_renderer import MeshRenderer
    from engines.mini.rig import ACTIONS, actions_to_exp
    from engines.motion_layout import pack_motion

    renderer = MeshRenderer()
    silence = pack_motion(torch.zeros(1, 3), torch.zeros(1, 3), actions_to_exp(torch.zeros(1, len(ACTIONS))))
    face = renderer.prepare(
        np.asarray(avatar.tensors["crop_rgb"], np.uint8), np.asarray(avatar.tensors["landmarks"], np.float32)
    )
    drawn = face_mesh.landmarks(renderer.render(face, silence)[0].numpy())
    aperture = mouth_aperture(drawn.points) if drawn is not None else 1.0
    if aperture > MAX_SILENT_APERTURE:
        raise PortraitError(
            "portrait_mouth_open",
            f"a mouth that stays open by {aperture:.2f} of its width",
            "closed lips, or a smile",
            "the mouth is wide open and cannot be drawn closed; send a picture with closed lips or a smile",
        )


def register_video(
    video: Path | bytes, face_mesh: FaceMesh, name: str = "", selfie: SelfieSegmenter | None = None
) -> Avatar:
    """Make a presenter of the best still frame of a short video; see `pipeline.avatars.video_still` for what is best.

    Args:
        video: An MP4/MOV or WebM/Matroska file of at most 60 s, or its content.
        face_mesh: The networks.
        name: For people; it is not part of the identity.
        selfie: See `register_portrait`.

    Raises:
        PortraitError: No frame can be used; its `code` says why (of the best frame).
    """
    first_error: PortraitError | None = None
    for still in best_stills(video, face_mesh):
        try:
            return register_portrait(still.rgb, face_mesh, name, selfie=selfie)
        except PortraitError as error:
            first_error = first_error or error
    raise first_error or PortraitError("portrait_no_face", "no frame", "a face", "no frame of the video shows a face")


def register_file(
    path: Path,
    face_mesh: FaceMesh,
    name: str = "",
    limits: PortraitLimits = DEFAULT_LIMITS,
    selfie: SelfieSegmenter | None = None,
) -> Avatar:
    """Make a presenter of a picture or a video, told apart by content, never by the file's name.

    Raises:
        PortraitError: Its `code` says why.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            kind = sniff(stream.read(_SNIFF_BYTES))
            if kind in VIDEO_KINDS:
                return register_video(path, face_mesh, name, selfie)
            stream.seek(0)
            data = stream.read(min(size, limits.max_bytes) + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    return register_portrait(data, face_mesh, name, limits, selfie)


def register_bytes(
    data: bytes,
    face_mesh: FaceMesh,
    name: str = "",
    limits: PortraitLimits = DEFAULT_LIMITS,
    selfie: SelfieSegmenter | None = None,
) -> Avatar:
    """Make a presenter of an uploaded picture or video, told apart by content.

    Raises:
        PortraitError: Its `code` says why.
    """
    if sniff(data[:_SNIFF_BYTES]) in VIDEO_KINDS:
        return register_video(data, face_mesh, name, selfie)
    return register_portrait(data, face_mesh, name, limits, selfie)


def make_avatar(canvas_rgb: U8, landmarks: F32, name: str = "", person: U8 | None = None) -> Avatar:
    """An avatar from a canvas and landmarks that are known already (drawn presenters, other detectors).

    Args:
        canvas_rgb: uint8 (H, W, 3), both sides even, at most 1920.
        landmarks: float32 (468, 3), canvas pixels, z away from the viewer.
        name: For people.
        person: uint8 (H, W), the presenter's share of every pixel, 0..255: head, hair and shoulders then move with the face. None
            where it is not known: only the inside of the face crop moves.

    Raises:
        ShapeError: An array has the wrong shape or type.
    """
    square = crop_square(landmarks)
    rect = square.rect(canvas_rgb.shape[1], canvas_rgb.shape[0])
    tensors: dict[str, NDArray[np.generic]] = {
        "crop_rgb": cut_crop(canvas_rgb, square),
        "landmarks": square.to_crop(landmarks),
    }
    if person is not None:
        check_array("person", person, np.uint8, canvas_rgb.shape[:2])
        rect = moving_rect(person, landmarks, square)
        tensors[PERSON] = np.ascontiguousarray(person[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w])
    avatar = Avatar(
        avatar_id="",
        family=FAMILY,
        name=name,
        canvas_rgb=canvas_rgb,
        rect=rect,
        crop_to_canvas=square.to_canvas(),
        mask=soft_mask() if person is None else soft_mask(MOVING_BORDER),
        tensors=tensors,
    )
    check_avatar(avatar)
    return replace(avatar, avatar_id=content_id(avatar))
