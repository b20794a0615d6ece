"""What a family of models owns: one object that is asked for everything in which families differ.

A family is its audio encoder, its motion model and its renderer, trained together, and what belongs to them: weights, avatars, the
way a face idles. The object is made in `pipeline/<family>/family.py` and found by `pipeline.families.find_family`; sessions,
transports and the graph ask it and never compare its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

from engines.weights.home import weights_dir
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.stages import AudioFacts, Carry, EncoderShape, MotionFacts, MotionItem, RenderRequest, StageInfo
from pipeline.types import Avatar, CropBatch, FeatureRows, MotionChunk, Nv12RectBatch

if TYPE_CHECKING:  # an avatar is read without torch, and its family is asked then
    from engines.runtimes.kinds import RuntimeKind
    from engines.tensorrt.recipes import Recipe
    from engines.weights.sets import WeightsEntry
    from pipeline.avatars.portrait import PortraitLimits
    from pipeline.avatars.store import AvatarStore
    from pipeline.config import FileMotion, RifeSettings
    from pipeline.expression.looks import Looks
    from pipeline.rife.interpolator import FrameInterpolator
    from pipeline.session.behaviour import MotionBehaviour
    from pipeline.session.clip_motion import ClipStart
    from pipeline.session.overlaid import OwnPictures
    from pipeline.session.stage_threads import StageThreads
    from pipeline.session.tail import Tail

NeuralStage = Literal["audio_features", "motion_diffusion", "renderer"]
ALL_STAGES: Final[tuple[NeuralStage, ...]] = ("audio_features", "motion_diffusion", "renderer")
USUAL_SHARES: Final[Mapping[str, float]] = MappingProxyType(
    {"audio_features": 0.15, "motion_diffusion": 0.3, "renderer": 0.4, "rife": 0.15}
)
"""Together one GPU."""


class AudioStage(Protocol):
    """Stage `audio_features` of a family."""

    @property
    def shape(self) -> EncoderShape:
        """Facts about the encoder."""
        ...

    @property
    def window_samples(self) -> int:
        """Samples of the window of a whole hop."""
        ...

    def window(self, samples: F32, first_row: int, /) -> FeatureRows:
        """Rows of one window."""
        ...

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        """Rows of one hop of several sessions."""
        ...


class MotionStage(Protocol):
    """Stage `motion_diffusion` of a family; every carry is of the family's own kind."""

    @property
    def hop_frames(self) -> int:
        """New frames per window."""
        ...

    @property
    def history_frames(self) -> int:
        """Frames of past motion that speech starts from."""
        ...

    def steps(self, items: Sequence[MotionItem[Any]]) -> Sequence[tuple[MotionChunk, Any] | LiveAnchorError]:
        """Hops of several sessions; a bad item fails alone."""
        ...

    def probe(self, sessions: int = 1) -> None:
        """Really sample a window for so many sessions at once; raises when that fails."""
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

    def from_file(self, source: bytes | Path, name: str, limits: PortraitLimits) -> Avatar:
        """Make an avatar of a picture or video, told apart by content.

        Args:
            source: The file, or its content.
            name: For people; it is not part of the identity.
            limits: What to accept of a picture.

        Raises:
            PortraitError: Its `code` says why not.
        """
        ...

    def default(self, store: AvatarStore) -> Avatar:
        """The default presenter, made into the store where it is missing."""
        ...


class Family(ABC):
    """A family. In its methods, `folder` is the one with its weights; None means the usual place.

    Attributes:
        name: As configuration, bundles and carries spell it: a small letter, then small letters, digits and `_`, 32 at most.
        stages: The stages that it has. Where `motion_diffusion` is not among them, `pass_on` stands in for it, in the session.
        needs_gpu: False where a CPU runs it in real time.
        doubles_in_motion_space: True where the renderer makes frames above 25 per second itself; False where `rife` does.
        expresses: Parts of looks that its faces can show: any of `expression`, `gaze` and `energy`.
        gestures: Whether its heads go with the voice's stress and phrases (`pipeline.session.gestures`).
        listens: Whether its silent faces can show that they listen (`pipeline.session.listening`).
        gpu_shares: Share of a GPU that one replica of each of its stages, and of `rife`, reserves where there are GPUs; together
            one GPU at most.
        weights: What `liveanchor weights` pulls, imports and verifies for it; empty where its weights come with the package.
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[NeuralStage, ...]] = ALL_STAGES
    needs_gpu: ClassVar[bool] = False
    doubles_in_motion_space: ClassVar[bool] = False
    expresses: ClassVar[frozenset[str]] = frozenset()
    gestures: ClassVar[bool] = False
    listens: ClassVar[bool] = False
    gpu_shares: ClassVar[Mapping[str, float]] = USUAL_SHARES
    weights: ClassVar[tuple[WeightsEntry, ...]] = ()

    @abstractmethod
    def info(self, audio: AudioFacts, motion: MotionFacts | None) -> StageInfo:
        """What sessions must know.

        Args:
            audio: What the loaded encoder says.
            motion: What the loaded motion stage says; None where the family has none.
        """

    @abstractmethod
    def load_audio(self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto") -> AudioStage:
        """Stage `audio_features`; `runtime` says how its network runs, here and below.

        Raises:
            WeightsFileError: A file is missing or of no use.
            RuntimeRefusedError: Its network cannot run the named way here.
        """

    def load_motion(self, folder: Path | None, device: str, runtime: RuntimeKind = "auto") -> MotionStage:
        """Stage `motion_diffusion`; see `load_audio` for errors."""
        raise LookupError(f"the family {self.name} has no stage motion_diffusion")

    def pass_on(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """What stands in for `motion_diffusion` in a family without it: the renderer draws from what features hold of each frame.

        Cheap, and a function of its arguments: it runs in the session's own process.

        Args:
            rows: One hop of features.
            carry: From the behaviour of the avatar, or from the call before.

        Returns:
            One row per frame, of a width that this family's behaviour and renderer agree on, and the next carry.
        """
        raise LookupError(f"the family {self.name} has a stage motion_diffusion")

    @abstractmethod
    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> RendererStage:
        """Stage `renderer`; see `load_audio` for errors."""

    def tail(self, load_avatar: Callable[[str], Avatar], interpolator: FrameInterpolator, cache_bytes: int) -> Tail:
        """Puts interpolated crops of the family's avatars into their canvas, which stands still by default."""
        from pipeline.session.tail import StillTail

        return StillTail(load_avatar, cache_bytes)

    def own_pictures(self, avatar: Avatar, colour: str) -> OwnPictures:
        """Pictures that the avatar brings along, where the renderer answers with what is painted over them."""
        raise LookupError(f"the family {self.name} draws its pictures whole")

    @abstractmethod
    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> StageThreads:
        """All stages in this process; `rife` says how pictures are interpolated."""

    @abstractmethod
    def avatar_maker(self, folder: Path | None, home: Path | None = None) -> AvatarMaker:
        """Registration, on the CPU.

        Args:
            folder: With the family's weights.
            home: Data folder with the face models; None = `LIVEANCHOR_HOME`.
        """

    def make_gallery(self, store: AvatarStore) -> None:  # noqa: B027 - a family may have none
        """Make the presenters that the project ships (`pipeline.gallery`) into the store, those that are missing there.

        Lists ask for it every time, so it is for families that make a presenter in a moment; others have none by default.
        A store that cannot be written keeps what it has.
        """

    @abstractmethod
    def check_tensors(self, avatar: Avatar) -> None:
        """Check the family's own part of an avatar, `Avatar.tensors`, before it is written to a bundle and after it was read.

        Raises:
            ShapeError: It names the array.
        """

    def express(self, motion: F32, values: F32, avatar: Avatar) -> F32:
        """Lay looks over motion that was made without them; a function of each frame alone.

        Args:
            motion: float32 (n, width), as the behaviour and the motion stage make it.
            values: float32 (n, channels) of the same frames, from `pipeline.expression.looks.Looks.values`.
            avatar: Whose face it is.
        """
        raise LookupError(f"faces of the family {self.name} express nothing")

    def check_looks(self, looks: Looks, field: str = "{}") -> None:
        """Refuse looks that its faces cannot show.

        Args:
            looks: What was asked for.
            field: How a field is named to the caller; `{}` stands for the name here.

        Raises:
            InvalidInputError: It names the part: `expression`, `gaze` or `energy`.
        """
        for part in sorted(looks.parts - self.expresses):
            can = ", ".join(sorted(self.expresses)) or "none of expression, gaze, energy"
            detail = f"faces of the family {self.name} cannot show it"
            raise InvalidInputError(field.format(part), "a value", f"nothing: {self.name} has {can}", detail)

    def speaking_motion(self, avatar: Avatar, frames: int) -> F32:
        """Motion (frames, width) whose pictures cost what those of speech cost: what a renderer is tried and measured with."""
        return self.behaviour(avatar).idle(0, 0, frames)

    @abstractmethod
    def behaviour(self, avatar: Avatar) -> MotionBehaviour:
        """How the face of an avatar idles and begins to speak.

        Raises:
            ShapeError: An array of the avatar is missing or has the wrong shape.
        """

    def clip_start(self, avatar: Avatar, seed: int, samples: int, motion: FileMotion) -> ClipStart | None:
        """How a whole file of this avatar moves; None: as in a live session.

        Args:
            avatar: The presenter.
            seed: Session seed.
            samples: Length of the clip, >= 1.
            motion: The wish.

        Raises:
            InvalidInputError: The family has no such motion.
        """
        if motion not in ("auto", "low_latency"):
            detail = f"the family {self.name} makes all motion as a live session does"
            raise InvalidInputError("file_motion", motion, "auto or low_latency", detail)
        return None

    def folder(self, home: Path | None = None) -> Path | None:
        """Where its pulled weights lie in a data folder; None where they come with the package."""
        return weights_dir(self.name, home) if self.weights else None

    def engines(self) -> Sequence[Recipe]:
        """Its TensorRT engines, as `liveanchor engine` builds and compares them."""
        return ()

    def embedded(self) -> str | None:
        """Load the weights that come with the package and say in a few words what they are; None where there are none.

        Raises:
            WeightsError: They are missing or of no use.
        """
        return None
