"""The stages in this process: what a session calls when there is no cluster."""

from __future__ import annotations

from collections.abc import Callable

from kernels.threads import use_threads
from pipeline.config import RifeSettings
from pipeline.mini.audio_features import CarryError
from pipeline.mini.family import HOP_CHOICES, load_speech_stages
from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.mini.renderer import Renderer
from pipeline.rife.local import LocalRife
from pipeline.session.stage_threads import StageThreads
from pipeline.session.tail import DEFAULT_CACHE_BYTES, StillTail
from pipeline.stages import Carry, StageInfo
from pipeline.types import Avatar, FeatureRows, MotionChunk


class LocalStages(StageThreads):
    """`Stages` of the family `mini` over two threads: one for features and motion, one for pictures.

    Sets torch to one thread per operation: sums then come out the same on every machine, and the two threads here, plus the
    encoder's, keep two cores busy.

    Args:
        load_avatar: Id -> avatar.
        device: Torch device of all stages.
        cache_bytes: Bound on prepared faces.
        rife: Settings of the interpolator, which is loaded when it is needed.

    Attributes:
        calls: Calls per stage so far.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        device: str = "cpu",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        rife: RifeSettings | None = None,
    ) -> None:
        use_threads(1)
        self._audio, self._motion = load_speech_stages(device)
        super().__init__(
            self._audio,
            Renderer(load_avatar, device, cache_bytes),
            LocalRife(lambda _: StillTail(load_avatar, cache_bytes), rife or RifeSettings(), device),
        )

    @property
    def info(self) -> StageInfo:
        """Facts about `mini`."""
        return StageInfo(
            family=self._motion.shape.family,
            hop_frames=self._motion.hop_frames,
            context_samples=self._audio.shape.left_samples,
            lookahead_samples=self._audio.shape.lookahead_samples,
            history_frames=self._motion.history_frames,
            doubles_in_motion_space=True,
            hop_choices=HOP_CHOICES,
        )

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """See `Stages`."""
        if not isinstance(carry, MotionCarry):
            raise CarryError("carry", carry.family or type(carry).__name__, self._motion.shape.family)
        return await self._in_speech_thread("motion_diffusion", lambda: self._motion.step(rows, carry))
