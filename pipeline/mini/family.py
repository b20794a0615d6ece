"""The family `mini`: embedded weights, a mesh renderer, real time on a laptop's CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engines.mini import FAMILY as NAME
from kernels.arrays import F32
from pipeline.family import Family
from pipeline.mini.avatar_tensors import check_tensors
from pipeline.mini.info import DOUBLES, stage_info
from pipeline.stages import AudioFacts, MotionFacts, StageInfo
from pipeline.types import Avatar

if TYPE_CHECKING:  # each method loads what it needs: an avatar is read without torch
    from engines.runtimes.kinds import RuntimeKind
    from pipeline.avatars.portrait import PortraitLimits
    from pipeline.avatars.store import AvatarStore
    from pipeline.config import RifeSettings
    from pipeline.mini.audio_features import AudioFeatures
    from pipeline.mini.behaviour import MiniBehaviour
    from pipeline.mini.motion_diffusion import MotionDiffusion
    from pipeline.mini.renderer import Renderer
    from pipeline.mini.stages import LocalStages


class MiniAvatarMaker:
    """Implements `pipeline.family.AvatarMaker`.

    Args:
        home: Data folder with the face models; None = `LIVEANCHOR_HOME`.
    """

    def __init__(self, home: Path | None) -> None:
        self._home = home

    def from_file(self, source: bytes | Path, name: str, limits: PortraitLimits) -> Avatar:
        """An avatar of a portrait, or of the best still frame of a video."""
        from pipeline.avatars.face_models import load_face_mesh, load_selfie
        from pipeline.mini.registration import register_bytes, register_file

        mesh, selfie = load_face_mesh(self._home), load_selfie(self._home)
        if isinstance(source, bytes):
            return register_bytes(source, mesh, name, limits, selfie)
        return register_file(source, mesh, name, limits, selfie)

    def default(self, store: AvatarStore) -> Avatar:
        """The drawn presenter."""
        from pipeline.mini.presenter import default_avatar

        return default_avatar(store)


class MiniFamily(Family):
    """Implements `pipeline.family.Family`."""

    name = NAME
    doubles_in_motion_space = DOUBLES
    gestures = True
    listens = True
    expresses = frozenset({"expression", "gaze", "energy"})

    def info(self, audio: AudioFacts, motion: MotionFacts | None) -> StageInfo:
        """What sessions must know."""
        assert motion is not None  # noqa: S101 - the family has all stages
        return stage_info(audio, motion)

    def load_audio(
        self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto"
    ) -> AudioFeatures:
        """Stage `audio_features`."""
        from pipeline.mini.load import load_speech_stages

        _only_eager("audio_features", runtime)
        return load_speech_stages(device, folder=folder)[0]

    def load_motion(self, folder: Path | None, device: str, runtime: RuntimeKind = "auto") -> MotionDiffusion:
        """Stage `motion_diffusion`."""
        from pipeline.mini.load import load_speech_stages

        _only_eager("motion_diffusion", runtime)
        return load_speech_stages(device, folder=folder)[1]

    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> Renderer:
        """Stage `renderer`; it has no weights."""
        from pipeline.mini.renderer import Renderer

        _only_eager("renderer", runtime)
        return Renderer(load_avatar, device, cache_bytes)

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> LocalStages:
        """All stages in this process."""
        from pipeline.mini.stages import LocalStages

        return LocalStages(load_avatar, device, rife=rife, folder=folder)

    def avatar_maker(self, folder: Path | None, home: Path | None = None) -> MiniAvatarMaker:
        """Registration; it needs no weights but the face models."""
        return MiniAvatarMaker(home)

    def make_gallery(self, store: AvatarStore) -> None:
        """Faces and outlines of the gallery are known: it needs no models."""
        from pipeline.mini.presenter import make_gallery

        make_gallery(store)

    def check_tensors(self, avatar: Avatar) -> None:
        """Check the face crop and its landmarks."""
        check_tensors(avatar)

    def express(self, motion: F32, values: F32, avatar: Avatar) -> F32:
        """Offsets of control points and head; see `pipeline.mini.expressed`."""
        from pipeline.mini.expressed import express

        return express(motion, values)

    def behaviour(self, avatar: Avatar) -> MiniBehaviour:
        """The same for every avatar."""
        from pipeline.mini.behaviour import MINI_BEHAVIOUR

        return MINI_BEHAVIOUR

    def embedded(self) -> str:
        """Which weights come with the package, and their size."""
        from engines.mini.load import load_networks, weights_folder

        version = load_networks().version
        size_mb = sum(path.stat().st_size for path in weights_folder().glob("*.safetensors")) / 1e6
        return f"embedded weights {version}, {size_mb:.1f} MB: real time on this CPU"


def _only_eager(stage: str, runtime: RuntimeKind) -> None:
    """The stages of `mini` have no other way of running yet."""
    from engines.runtimes.choice import RuntimeRefusedError

    if runtime not in ("auto", "eager"):
        raise RuntimeRefusedError(f"{NAME} {stage} has no runtime {runtime}; it has eager")


FAMILY: Final = MiniFamily()
