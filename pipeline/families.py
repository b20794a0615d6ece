"""The families by name: how each loads its stages and makes its avatars. The one place that knows which families there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from engines.runtimes.choice import RuntimeKind
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.avatars.portrait import PortraitLimits
from pipeline.config import RifeSettings
from pipeline.mini.audio_features import EncoderShape
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.tail import Tail
from pipeline.stages import RenderRequest, Stages
from pipeline.types import Avatar, CropBatch, FeatureRows, MotionChunk, Nv12RectBatch

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore


class AudioStage(Protocol):
    """Stage `audio_features` of a family."""

    @property
    def shape(self) -> EncoderShape:
        """Facts about the encoder."""
        ...

    @property
    def window_samples(self) -> int:
        """Samples of one hop's window."""
        ...

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        """Rows of one hop of several sessions."""
        ...


class MotionStage(Protocol):
    """Stage `motion_diffusion` of a family; items are `pipeline.mini.motion_diffusion.MotionItem` with the family's own carry."""

    @property
    def hop_frames(self) -> int:
        """New frames per window."""
        ...

    @property
    def history_frames(self) -> int:
        """Frames of past motion that speech starts from."""
        ...

    def steps(self, items: Sequence[Any]) -> Sequence[tuple[MotionChunk, Any] | LiveAnchorError]:
        """Hops of several sessions; a bad item fails alone."""
        ...

    def probe(self) -> None:
        """Really sample something; raises when that fails."""
        ...


class RendererStage(Protocol):
    """Stage `renderer` of a family."""

    def render(self, request: RenderRequest) -> Nv12RectBatch:
        """Draw one chunk."""
        ...

    def crops(self, request: RenderRequest) -> CropBatch:
        """Draw the face crops of one chunk, for the stage that interpolates them."""
        ...

    def warm_avatars(self) -> list[str]:
        """Ids of the avatars that are prepared now."""
        ...


class AvatarMaker(Protocol):
    """Makes avatars of a family. Not thread-safe."""

    def from_file(self, data: bytes, name: str, limits: PortraitLimits) -> Avatar:
        """Make a presenter of an uploaded picture or video, told apart by content.

        Raises:
            PortraitError: Its `code` says why not.
        """
        ...

    def default(self, store: AvatarStore) -> Avatar:
        """The default presenter, made into the store where it is missing."""
        ...


class LocalStageSet(Stages, Protocol):
    """Stages in this process."""

    def check_rate(self, fps: float) -> None:
        """Refuse a frame rate that `rife` would have to make, where it cannot.

        Raises:
            InvalidInputError: It says what to do.
        """
        ...

    def close(self) -> None:
        """End their threads."""
        ...


@dataclass(frozen=True)
class FamilyFacts:
    """What sessions must know beside the stages' own numbers; see `pipeline.stages.StageInfo`."""

    sets_up: bool
    gate_frames: int | None
    doubles_in_motion_space: bool
    hop_choices: tuple[int, ...] = ()


class Family(Protocol):
    """A family. `folder` is the one with its weights; None means the usual place."""

    @property
    def facts(self) -> FamilyFacts:
        """Facts."""
        ...

    def load_audio(self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto") -> AudioStage:
        """Stage `audio_features`; `runtime` says how its network runs, here and below."""
        ...

    def load_motion(self, folder: Path | None, device: str, runtime: RuntimeKind = "auto") -> MotionStage:
        """Stage `motion_diffusion`."""
        ...

    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> RendererStage:
        """Stage `renderer`."""
        ...

    def tail(self, load_avatar: Callable[[str], Avatar], interpolator: FrameInterpolator, cache_bytes: int) -> Tail:
        """Puts interpolated crops of the family's avatars into their canvas; moving canvases are interpolated as well."""
        ...

    def avatar_maker(self, folder: Path | None) -> AvatarMaker:
        """Registration, on the CPU."""
        ...

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> LocalStageSet:
        """All stages in this process; `rife` says how pictures are interpolated."""
        ...


_MODULES: Final = {"mini": "pipeline.mini.family", "ditto": "pipeline.ditto.family"}
FAMILIES: Final = tuple(_MODULES)


def find_family(name: str) -> Family:
    """The family of that name; its module is imported now.

    Raises:
        InvalidInputError: There is none.
    """
    if name not in _MODULES:
        raise InvalidInputError("family", repr(name[:40]), ", ".join(FAMILIES))
    return cast(Family, importlib.import_module(_MODULES[name]).FAMILY_STAGES)
