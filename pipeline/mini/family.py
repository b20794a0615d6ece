"""The stages of the `mini` family, ready to call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from engines.mini.load import FAMILY, MiniEngines, load_engines
from engines.runtimes.choice import RuntimeKind, RuntimeRefusedError
from pipeline.avatars.portrait import PortraitLimits
from pipeline.config import RifeSettings
from pipeline.families import FamilyFacts
from pipeline.mini.audio_features import AudioFeatures, EncoderShape
from pipeline.mini.motion_diffusion import MotionDiffusion, MotionShape
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.tail import StillTail
from pipeline.types import Avatar

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore
    from pipeline.mini.renderer import Renderer
    from pipeline.mini.stages import LocalStages

HOP_FRAMES = 8
HOP_CHOICES: Final = (4,)
"""At a hop of 4, r with labels is that of 8 (0.875 and 0.874 on 16 held-out sentences), at twice the motion model's work."""


def make_speech_stages(engines: MiniEngines, hop_frames: int = HOP_FRAMES) -> tuple[AudioFeatures, MotionDiffusion]:
    """Stages over given engines; both use the same hop."""
    audio = AudioFeatures(
        engines.encoder,
        EncoderShape(engines.row_dim, engines.left_samples, engines.lookahead_samples, FAMILY, engines.version),
        hop_frames,
    )
    shape = MotionShape(
        seq_frames=engines.seq_frames,
        row_dim=engines.row_dim,
        steps=engines.steps,
        dofs=engines.dofs,
        silence_row=engines.silence_row.cpu().numpy().astype(np.float32),
        family=FAMILY,
        version=engines.version,
    )
    return audio, MotionDiffusion(engines.sampler, shape, hop_frames)


def load_speech_stages(device: str = "cpu", hop_frames: int = HOP_FRAMES) -> tuple[AudioFeatures, MotionDiffusion]:
    """Stages over the embedded weights.

    Raises:
        WeightsFileError: The embedded weights are missing or damaged.
    """
    return make_speech_stages(load_engines(device), hop_frames)


class MiniAvatarMaker:
    """Registration of `mini`; see `pipeline.families.AvatarMaker`."""

    def from_file(self, data: bytes, name: str, limits: PortraitLimits) -> Avatar:
        """A portrait, or the best still frame of a video."""
        from pipeline.mini.registration import register_bytes
        from pipeline.session.local_job import load_face_mesh

        return register_bytes(data, load_face_mesh(), name, limits)

    def default(self, store: AvatarStore) -> Avatar:
        """The drawn presenter."""
        from pipeline.presenter.avatar import default_avatar

        return default_avatar(store)


class MiniFamily:
    """See `pipeline.families.Family`."""

    facts = FamilyFacts(sets_up=False, gate_frames=None, doubles_in_motion_space=True, hop_choices=HOP_CHOICES)

    def load_audio(
        self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto"
    ) -> AudioFeatures:
        """Stage `audio_features`."""
        _only_eager("audio_features", runtime)
        return make_speech_stages(load_engines(device, folder=folder))[0]

    def load_motion(self, folder: Path | None, device: str, runtime: RuntimeKind = "auto") -> MotionDiffusion:
        """Stage `motion_diffusion`."""
        _only_eager("motion_diffusion", runtime)
        return make_speech_stages(load_engines(device, folder=folder))[1]

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

    def tail(
        self, load_avatar: Callable[[str], Avatar], interpolator: FrameInterpolator, cache_bytes: int
    ) -> StillTail:
        """The canvas stands still."""
        return StillTail(load_avatar, cache_bytes)

    def avatar_maker(self, folder: Path | None) -> MiniAvatarMaker:
        """Registration."""
        return MiniAvatarMaker()

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> LocalStages:
        """All stages in this process, over the embedded weights."""
        from pipeline.mini.stages import LocalStages

        return LocalStages(load_avatar, device, rife=rife)


def _only_eager(stage: str, runtime: RuntimeKind) -> None:
    """The stages of `mini` have no other way of running yet."""
    if runtime not in ("auto", "eager"):
        raise RuntimeRefusedError(f"mini {stage} has no runtime {runtime}; it has eager")


FAMILY_STAGES: Final = MiniFamily()
