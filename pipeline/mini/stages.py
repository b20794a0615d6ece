"""The stages of the family `mini` in this process: what a session calls when there is no cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernels.threads import use_threads
from pipeline.config import RifeSettings
from pipeline.mini.info import stage_info
from pipeline.mini.load import load_speech_stages
from pipeline.mini.renderer import Renderer
from pipeline.rife.local import LocalRife
from pipeline.session.stage_threads import StageThreads
from pipeline.session.tail import DEFAULT_CACHE_BYTES, StillTail
from pipeline.stages import AudioFacts, MotionFacts
from pipeline.types import Avatar


class LocalStages(StageThreads):
    """`Stages` of the family `mini`.

    Sets torch to one thread per operation: sums then come out the same on every machine, and the two threads here, plus the
    encoder's, keep two cores busy.

    Args:
        load_avatar: Id -> avatar.
        device: Torch device of all stages.
        cache_bytes: Bound on prepared faces.
        rife: Settings of the interpolator, which is loaded when it is needed.
        folder: Folder with the weights; None means the embedded ones.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        device: str = "cpu",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        rife: RifeSettings | None = None,
        folder: Path | None = None,
    ) -> None:
        use_threads(1)
        audio, motion = load_speech_stages(device, folder=folder)
        shape = audio.shape
        super().__init__(
            stage_info(
                AudioFacts(shape.left_samples, shape.lookahead_samples),
                MotionFacts(motion.hop_frames, motion.history_frames),
            ),
            audio,
            motion.step,
            Renderer(load_avatar, device, cache_bytes),
            LocalRife(lambda _: StillTail(load_avatar, cache_bytes), rife or RifeSettings(), device),
        )
