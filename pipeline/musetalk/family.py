"""The family `musetalk`: public checkpoints, a mouth painted into the avatar's own pictures, no motion stage, a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from engines.musetalk import FAMILY as NAME
from engines.musetalk.checkpoints import musetalk_folder
from engines.musetalk.version import latents_version
from engines.musetalk.weights import CHECKPOINTS
from engines.runtimes.kinds import RuntimeKind
from engines.tensorrt.recipes import Recipe
from kernels.arrays import F32
from pipeline.avatars.face_models import load_face_mesh
from pipeline.avatars.portrait import PortraitLimits
from pipeline.avatars.portrait_errors import unreadable
from pipeline.avatars.portrait_header import VIDEO_KINDS, sniff
from pipeline.config import RifeSettings
from pipeline.family import Family
from pipeline.musetalk.audio_features import MuseTalkAudioFeatures
from pipeline.musetalk.audio_windows import WINDOW_DIM
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.behaviour import MuseTalkBehaviour
from pipeline.musetalk.face_rows import pack_rows
from pipeline.musetalk.load import load_audio_features, load_renderer, load_source_models
from pipeline.musetalk.own_pictures import MuseTalkOwnPictures
from pipeline.musetalk.registration import SourceModels, make_avatar, register_clip, register_picture
from pipeline.musetalk.renderer import MuseTalkRenderer
from pipeline.musetalk.spoken_frames import frames_of
from pipeline.musetalk.stages import MuseTalkStages, load_stages, stage_info
from pipeline.musetalk.tail import MuseTalkTail
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.stages import AudioFacts, Carry, MotionFacts, StageInfo
from pipeline.types import Avatar, FeatureRows, MotionChunk

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore

_SNIFF_BYTES: Final = 64
_POINTER_FILE: Final = ".default-presenter-musetalk.json"
_DEFAULT_NAME: Final = "Default presenter (musetalk)"


class MuseTalkAvatarMaker:
    """Registration; the autoencoder and the face parser are loaded at first use.

    Args:
        folder: Checkpoint folder; None means where `weights pull musetalk` puts it.
        home: Data folder with the face models; None = `LIVEANCHOR_HOME`.
    """

    def __init__(self, folder: Path | None, home: Path | None = None) -> None:
        self._folder = musetalk_folder(folder)
        self._home = home

    @cached_property
    def _models(self) -> SourceModels:
        return load_source_models(self._folder, "cuda" if torch.cuda.is_available() else "cpu")

    def from_file(self, source: bytes | Path, name: str, limits: PortraitLimits) -> Avatar:
        """An avatar of a picture, or of a clip that is played to and fro."""
        try:
            data = source if isinstance(source, bytes) else source.read_bytes()
        except OSError as error:
            raise unreadable(source, error) from error  # type: ignore[arg-type]  # bytes are not read
        mesh = load_face_mesh(self._home)
        if sniff(data[:_SNIFF_BYTES]) in VIDEO_KINDS:
            return register_clip(data, mesh, self._models, name)
        return register_picture(data, mesh, self._models, name, limits)

    def default(self, store: AvatarStore) -> Avatar:
        """The drawn presenter, read by the autoencoder."""
        from pipeline.presenter.avatar import drawing_version, keep_presenter

        version = f"{drawing_version()}-{latents_version(self._folder)}"
        return keep_presenter(store, _POINTER_FILE, version, self._draw)

    def _draw(self) -> Avatar:
        from pipeline.presenter.draw import draw_presenter

        drawing = draw_presenter()
        return make_avatar(lambda: [drawing.rgb], [drawing.landmarks], self._models, _DEFAULT_NAME)


class MuseTalkFamily(Family):
    """Implements `pipeline.family.Family`."""

    name = NAME
    stages = ("audio_features", "renderer")
    needs_gpu = True
    gpu_shares = {"audio_features": 0.15, "renderer": 0.7, "rife": 0.15}
    weights = (CHECKPOINTS,)

    def info(self, audio: AudioFacts, motion: MotionFacts | None) -> StageInfo:
        """What sessions must know."""
        assert motion is None  # noqa: S101 - the family has no such stage
        return stage_info(audio)

    def load_audio(
        self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto"
    ) -> MuseTalkAudioFeatures:
        """Stage `audio_features`; `runtime` is the painter's, whose ways the encoder does not have."""
        return load_audio_features(folder, device)

    def pass_on(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """Windows of features, and how much of each painted frame is shown."""
        return frames_of(rows, carry)

    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> MuseTalkRenderer:
        """Stage `renderer`."""
        return load_renderer(load_avatar, folder, device, cache_bytes, runtime=runtime)

    def own_pictures(self, avatar: Avatar, colour: str) -> MuseTalkOwnPictures:
        """The frames of its clip, or its picture."""
        return MuseTalkOwnPictures(avatar, unpack(avatar), colour)

    def tail(
        self, load_avatar: Callable[[str], Avatar], interpolator: FrameInterpolator, cache_bytes: int
    ) -> MuseTalkTail:
        """Pictures stand still; clips are interpolated with the face."""
        return MuseTalkTail(load_avatar, interpolator, cache_bytes)

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> MuseTalkStages:
        """All stages in this process."""
        return load_stages(load_avatar, folder, device, rife=rife)

    def avatar_maker(self, folder: Path | None, home: Path | None = None) -> MuseTalkAvatarMaker:
        """Registration with the family's own networks."""
        return MuseTalkAvatarMaker(folder, home)

    def check_tensors(self, avatar: Avatar) -> None:
        """Read all of the family's arrays."""
        unpack(avatar)

    def engines(self) -> Sequence[Recipe]:
        """The painter and the small decoder."""
        from engines.musetalk.recipes import NETWORK_RECIPES

        return NETWORK_RECIPES

    def speaking_motion(self, avatar: Avatar, frames: int) -> F32:
        """Rows of which every one is painted; an idle one is not, and costs nothing."""
        return pack_rows(np.ones(frames, np.float32), np.zeros((frames, WINDOW_DIM), np.float32))

    def behaviour(self, avatar: Avatar) -> MuseTalkBehaviour:
        """By what the avatar is: a picture, or a clip that moves by itself."""
        return MuseTalkBehaviour(len(unpack(avatar)))


FAMILY: Final = MuseTalkFamily()
