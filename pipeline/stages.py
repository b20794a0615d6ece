"""The stages as a session sees them: awaitable, stateless calls. In one process or across a cluster, the same lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME, FeatureRows, MotionChunk, Nv12RectBatch

CarryT = TypeVar("CarryT")


class CarryError(InvalidInputError):
    """A carry belongs to another family, to other weights, or to a stream that has ended."""

    code = "carry_mismatch"


def foreign_carry(carry: object, family: str) -> CarryError:
    """For a carry of another family's kind."""
    return CarryError("carry", getattr(carry, "family", "") or type(carry).__name__, f"a carry of the family {family}")


@dataclass(frozen=True)
class EncoderShape:
    """Facts about the speech encoder of a family.

    Attributes:
        row_dim: Width of a feature row.
        left_samples: Samples needed before a window's first row.
        lookahead_samples: Samples needed after its last row.
        family: Family of the encoder.
        version: Version of its weights.
        edge_rows: Rows of a window's answer that are not of its own frames but around them.
    """

    row_dim: int
    left_samples: int
    lookahead_samples: int
    family: str
    version: str
    edge_rows: int = 0

    def frames_in(self, rows: FeatureRows) -> int:
        """Frames of motion that a window's answer is of."""
        return (len(rows.rows) - self.edge_rows) // ROWS_PER_FRAME


@dataclass(frozen=True)
class AudioFacts:
    """What the loaded stage `audio_features` knows of its windows: samples that each needs before and after its own frames."""

    context_samples: int
    lookahead_samples: int


@dataclass(frozen=True)
class MotionFacts:
    """What the loaded stage `motion_diffusion` knows of its windows: new frames, and frames of past motion before them."""

    hop_frames: int
    history_frames: int


@dataclass(frozen=True)
class MotionItem(Generic[CarryT]):
    """The share of one session in a batched call of the stage `motion_diffusion`.

    Attributes:
        rows: Its next feature rows.
        carry: From the behaviour of its avatar, or from the call before.
        final: No more rows follow.
    """

    rows: FeatureRows
    carry: CarryT
    final: bool = False


@dataclass(frozen=True)
class StageInfo:
    """What a session must know about a family before it cuts audio into work.

    Attributes:
        family: Name of the family.
        hop_frames: Frames of motion per window; the granularity that fixes the result.
        context_samples: Samples that a feature window needs before its first frame.
        lookahead_samples: Samples that a feature window needs after its last frame.
        history_frames: Frames of past motion that a motion window is conditioned on.
        doubles_in_motion_space: True where the renderer makes 50 frames/s itself; False where RIFE does.
        sets_up: True where the motion stage wants one call without rows at the start of a session, whose carry every utterance
            then begins from.
        gate_frames: Whole frames of look-ahead that decide whether someone speaks; None = all frames that the look-ahead touches.
        hop_choices: Other hops that a stream may choose, by the length of its feature windows and `MotionBehaviour.start`.
        passes_rows_on: True where the family has no motion stage: its `pass_on` stands in for it, in the session, and is no call.
    """

    family: str
    hop_frames: int
    context_samples: int
    lookahead_samples: int
    history_frames: int
    doubles_in_motion_space: bool
    sets_up: bool = False
    gate_frames: int | None = None
    hop_choices: tuple[int, ...] = ()
    passes_rows_on: bool = False

    @property
    def longest_hop_frames(self) -> int:
        """New frames per window where windows should be as few as the family allows."""
        return max((self.hop_frames, *self.hop_choices))

    @property
    def lookahead_frames(self) -> int:
        """Whole frames after a hop that the silence gate looks at."""
        touched = -(-self.lookahead_samples // SAMPLES_PER_FRAME)
        return touched if self.gate_frames is None else self.gate_frames


class Carry(Protocol):
    """What a session carries between calls of the motion stage; every family has its own, opaque to the session."""

    @property
    def family(self) -> str:
        """Family of the model; empty until its first call."""
        ...

    @property
    def version(self) -> str:
        """Version of its weights; empty until its first call."""
        ...

    @property
    def epoch(self) -> int:
        """Session epoch."""
        ...


@dataclass(frozen=True)
class RenderRequest:
    """A chunk to draw.

    Attributes:
        avatar_id: Id of the avatar that speaks.
        motion: Consecutive frames at 25 frames/s.
        following: float32 (265,), the frame after the chunk, needed above 25 frames/s; None at the end of a clip.
        fps: 25, 50 or 59.94. Crops are always drawn at 25.
        colour: "bt709" or "bt601".
        epoch: Session epoch.
    """

    avatar_id: str
    motion: MotionChunk
    following: F32 | None
    fps: float
    colour: str
    epoch: int = 0


@dataclass(frozen=True)
class RifeRequest:
    """What to make of crops: pictures at a higher rate, composited.

    Attributes:
        fps: 50 or 59.94.
        colour: "bt709" or "bt601".
    """

    fps: float
    colour: str


class CropsInWork(Protocol):
    """Crops that are being drawn. They are handed on as they are, never awaited by the session: pictures go from stage to stage."""

    def cancel(self) -> None:
        """Give the crops up: they are not wanted any more."""
        ...


class Stages(Protocol):
    """The stage calls of one family. Every call may raise LiveAnchorError; none keeps anything about the session."""

    @property
    def info(self) -> StageInfo:
        """Facts about the family."""
        ...

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Make the features of one hop.

        Args:
            window: float32 (context_samples + hop_frames * 640 + lookahead_samples,), with the hop that the stream chose.
            first_row: Index of the first row since the session's start.
        """
        ...

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """Make one hop of motion and the carry for the next hop."""
        ...

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """`len(request.motion)` frames at 25 frames/s, twice as many at 50."""
        ...

    def crops(self, request: RenderRequest) -> CropsInWork:
        """Begin to draw the face crops of a chunk, one per frame of motion, and return at once."""
        ...

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Video frames after `before` (its last crop is the carry) up to the last of `crops`; see `pipeline.rife.stage.Rife`.

        Args:
            request: Rate and colour.
            crops: From `crops`, of this chunk.
            before: From `crops`, of the chunk before; None where there is none.
        """
        ...
