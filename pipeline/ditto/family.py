"""The family `ditto`: public checkpoints, a neural renderer, a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engines.ditto import FAMILY as NAME
from engines.ditto.checkpoints import ditto_folder
from engines.ditto.version import SOURCE_FILES, files_version
from engines.ditto.weights import CHECKPOINTS
from engines.motion_layout import PITCH
from engines.runtimes.kinds import RuntimeKind
from kernels.arrays import F32
from pipeline.avatars.face_models import load_face_mesh
from pipeline.avatars.portrait import PortraitLimits
from pipeline.avatars.portrait_errors import unreadable
from pipeline.avatars.portrait_header import VIDEO_KINDS, sniff
from pipeline.config import FileMotion, RifeSettings
from pipeline.ditto.audio_features import DittoAudioFeatures
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.behaviour import DittoBehaviour, logit_slope
from pipeline.ditto.clip_start import ditto_clip_start
from pipeline.ditto.expressed import express
from pipeline.ditto.load import load_audio_features, load_motion_modes, load_renderer, load_source_models
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.registration import SourceModels, make_avatar, register_picture, register_template_video
from pipeline.ditto.renderer import DittoRenderer
from pipeline.ditto.stages import DittoStages, load_stages, stage_info
from pipeline.ditto.tail import DittoTail
from pipeline.expression.looks import NOD
from pipeline.family import Family
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.clip_motion import ClipStart
from pipeline.stages import AudioFacts, MotionFacts, StageInfo
from pipeline.types import Avatar

if TYPE_CHECKING:
    from engines.tensorrt.recipes import Recipe
    from pipeline.avatars.store import AvatarStore
    from pipeline.ditto.face_landmarks import FaceLandmarker

_SNIFF_BYTES: Final = 64
_POINTER_FILE: Final = ".default-presenter-ditto.json"
_DEFAULT_NAME: Final = "Default presenter (ditto)"


class DittoAvatarMaker:
    """Registration with the extractors on the CPU; they are loaded at first use.

    Args:
        folder: Checkpoint folder; None means where `weights pull ditto` puts it.
        home: Data folder with the face models; None = `LIVEANCHOR_HOME`.
    """

    def __init__(self, folder: Path | None, home: Path | None = None) -> None:
        self._folder = ditto_folder(folder)
        self._home = home

    @cached_property
    def _models(self) -> SourceModels:
        return load_source_models(self._folder)

    @cached_property
    def _landmarker(self) -> FaceLandmarker:
        from pipeline.ditto.face_landmarks import load_landmarker

        return load_landmarker(load_face_mesh(self._home), self._folder)

    def from_file(self, source: bytes | Path, name: str, limits: PortraitLimits) -> Avatar:
        """An avatar of a picture, or of a template video that is played back and forth."""
        try:
            data = source if isinstance(source, bytes) else source.read_bytes()
        except OSError as error:
            raise unreadable(source, error) from error  # type: ignore[arg-type]  # bytes are not read
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


class DittoFamily(Family):
    """Implements `pipeline.family.Family`."""

    name = NAME
    needs_gpu = True
    listens = True
    expresses = frozenset({"expression", "gaze", "energy"})
    weights = (CHECKPOINTS,)

    def info(self, audio: AudioFacts, motion: MotionFacts | None) -> StageInfo:
        """What sessions must know."""
        assert motion is not None  # noqa: S101 - the family has all stages
        return stage_info(audio, motion)

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

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> DittoStages:
        """All stages in this process."""
        return load_stages(load_avatar, folder, device, rife=rife)

    def avatar_maker(self, folder: Path | None, home: Path | None = None) -> DittoAvatarMaker:
        """Registration with the family's own extractors."""
        return DittoAvatarMaker(folder, home)

    def check_tensors(self, avatar: Avatar) -> None:
        """Read all of the family's arrays."""
        unpack(avatar)

    def behaviour(self, avatar: Avatar) -> DittoBehaviour:
        """By what the avatar is: a picture sways, a template video moves by itself."""
        return DittoBehaviour(unpack(avatar))

    def express(self, motion: F32, values: F32, avatar: Avatar) -> F32:
        """Offsets of keypoints; see `pipeline.ditto.expressed`. The head of a template video moves by itself and does not nod."""
        if not values[:, NOD].any():
            return express(motion, values)
        tensors = unpack(avatar)
        return express(motion, values, logit_slope(tensors.motion[0, PITCH]) if tensors.is_image else None)

    def clip_start(self, avatar: Avatar, seed: int, samples: int, motion: FileMotion) -> ClipStart | None:
        """Files see speech that comes later, unless the wish says otherwise."""
        return ditto_clip_start(avatar, seed, samples, motion)

    def engines(self) -> Sequence[Recipe]:
        """Its networks, and HuBERT out of its ONNX file."""
        from engines.ditto.hubert.engine import HubertRecipe
        from engines.ditto.recipes import NETWORK_RECIPES

        return (*NETWORK_RECIPES, HubertRecipe())


FAMILY: Final = DittoFamily()
