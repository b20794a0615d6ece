"""The family `ditto` as `pipeline.families` wants it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engines.ditto.checkpoints import ditto_folder
from engines.ditto.version import SOURCE_FILES, files_version
from engines.runtimes.choice import RuntimeKind
from pipeline.avatars.portrait import PortraitLimits
from pipeline.avatars.portrait_header import sniff
from pipeline.config import RifeSettings
from pipeline.ditto.audio_features import LOOKAHEAD_SAMPLES, DittoAudioFeatures
from pipeline.ditto.load import load_audio_features, load_motion_modes, load_renderer, load_source_models
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.registration import SourceModels, make_avatar, register_picture, register_template_video
from pipeline.ditto.renderer import DittoRenderer
from pipeline.ditto.stages import DittoStages, load_stages
from pipeline.ditto.tail import DittoTail
from pipeline.families import FamilyFacts
from pipeline.mini.registration import VIDEO_KINDS
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.types import SAMPLES_PER_FRAME, Avatar

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore
    from pipeline.ditto.face_landmarks import FaceLandmarker

_SNIFF_BYTES: Final = 64
_POINTER_FILE: Final = ".default-presenter-ditto.json"
_DEFAULT_NAME: Final = "Default presenter (ditto)"


class DittoAvatarMaker:
    """Registration with the extractors on the CPU; they are loaded at first use.

    Args:
        folder: Checkpoint folder; None means where `weights pull ditto` puts it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = ditto_folder(folder)

    @cached_property
    def _models(self) -> SourceModels:
        return load_source_models(self._folder)

    @cached_property
    def _landmarker(self) -> FaceLandmarker:
        from pipeline.ditto.face_landmarks import load_landmarker
        from pipeline.session.local_job import load_face_mesh

        return load_landmarker(load_face_mesh(), self._folder)

    def from_file(self, data: bytes, name: str, limits: PortraitLimits) -> Avatar:
        """A picture, or a template video that is played back and forth."""
        if sniff(data[:_SNIFF_BYTES]) in VIDEO_KINDS:
            return register_template_video(data, self._landmarker, self._models, name)
        return register_picture(data, self._landmarker, self._models, name, limits)

    def default(self, store: AvatarStore) -> Avatar:
        """The drawn presenter, read by the extractors."""
        from pipeline.presenter.avatar import drawing_version, keep_presenter

        version = f"{drawing_version()}-{files_version(self._folder, SOURCE_FILES)}"
        return keep_presenter(store, _POINTER_FILE, version, self._draw)

    def _draw(self) -> Avatar:
        from pipeline.ditto.face_landmarks import FoundFace
        from pipeline.presenter.draw import draw_presenter

        drawing = draw_presenter()
        face = FoundFace(drawing.landmarks[:, :2], drawing.landmarks)
        return make_avatar([drawing.rgb], [face], self._models, _DEFAULT_NAME)


class DittoFamily:
    """See `pipeline.families.Family`."""

    facts = FamilyFacts(sets_up=True, gate_frames=LOOKAHEAD_SAMPLES // SAMPLES_PER_FRAME, doubles_in_motion_space=False)

    def load_audio(
        self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto"
    ) -> DittoAudioFeatures:
        """Stage `audio_features`."""
        return load_audio_features(folder, device, threads=threads, runtime=runtime)

    def load_motion(self, folder: Path | None, device: str, runtime: RuntimeKind = "auto") -> DittoMotionModes:
        """Stage `motion_diffusion`."""
        return load_motion_modes(folder, device, runtime=runtime)

    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> DittoRenderer:
        """Stage `renderer`."""
        return load_renderer(load_avatar, folder, device, cache_bytes, runtime=runtime)

    def tail(
        self, load_avatar: Callable[[str], Avatar], interpolator: FrameInterpolator, cache_bytes: int
    ) -> DittoTail:
        """Pictures stand still; template videos are interpolated with the face."""
        return DittoTail(load_avatar, interpolator, cache_bytes)

    def avatar_maker(self, folder: Path | None) -> DittoAvatarMaker:
        """Registration."""
        return DittoAvatarMaker(folder)

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> DittoStages:
        """All stages in this process."""
        return load_stages(load_avatar, folder, device, rife=rife)


FAMILY_STAGES: Final = DittoFamily()
