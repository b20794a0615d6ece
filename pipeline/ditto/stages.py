"""Ditto's stages in this process: `pipeline.stages.Stages` without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engines.ditto import FAMILY
from kernels.threads import use_threads
from pipeline.config import RifeSettings
from pipeline.ditto.audio_features import LOOKAHEAD_SAMPLES, DittoAudioFeatures
from pipeline.ditto.feature_windows import HOP_FRAMES
from pipeline.ditto.load import load_audio_features, load_motion_modes, load_renderer
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.motion_windows import SEQ_FRAMES
from pipeline.ditto.renderer import DEFAULT_CACHE_BYTES, DittoRenderer
from pipeline.ditto.tail import DittoTail
from pipeline.rife.local import LocalRife
from pipeline.session.stage_threads import StageThreads
from pipeline.stages import AudioFacts, MotionFacts, StageInfo
from pipeline.types import SAMPLES_PER_FRAME, Avatar


def stage_info(audio: AudioFacts, motion: MotionFacts) -> StageInfo:
    """What sessions must know: 285 ms of audio to the first frame at a hop of 5 (3200 + 1360 samples)."""
    return StageInfo(
        family=FAMILY,
        hop_frames=motion.hop_frames,
        context_samples=audio.context_samples,
        lookahead_samples=audio.lookahead_samples,
        history_frames=motion.history_frames,
        doubles_in_motion_space=False,
        sets_up=True,
        gate_frames=LOOKAHEAD_SAMPLES // SAMPLES_PER_FRAME,
        hop_choices=tuple(hop for hop in (2 * motion.hop_frames,) if hop < SEQ_FRAMES),
    )


class DittoStages(StageThreads):
    """`Stages` of the family `ditto`.

    Args:
        audio: The speech encoder's stage.
        motion: The motion stage, all modes.
        renderer: The renderer.
        rife: The interpolator's stage.
    """

    def __init__(
        self, audio: DittoAudioFeatures, motion: DittoMotionModes, renderer: DittoRenderer, rife: LocalRife
    ) -> None:
        shape = audio.shape
        info = stage_info(
            AudioFacts(shape.left_samples, shape.lookahead_samples),
            MotionFacts(motion.hop_frames, motion.history_frames),
        )
        super().__init__(info, audio, motion.step, renderer, rife)


def load_stages(
    load_avatar: Callable[[str], Avatar],
    folder: Path | None = None,
    device: str = "cpu",
    *,
    hop_frames: int = HOP_FRAMES,
    steps: int | None = None,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    rife: RifeSettings | None = None,
) -> DittoStages:
    """Stages over the public checkpoints. Sets torch to one thread per operation, so that sums come out the same on every machine.

    Args:
        load_avatar: Id -> avatar.
        folder: Checkpoint folder; None means where `weights pull ditto` puts it.
        device: Torch device of all stages.
        hop_frames: New frames per motion window, a multiple of 5.
        steps: DDIM steps; None takes the online configuration's.
        cache_bytes: Bound on prepared faces.
        rife: Settings of the interpolator, which is loaded when it is needed.

    Raises:
        WeightsFileError: A file is missing or of no use.
        OnnxRuntimeMissingError: onnxruntime is not installed.
    """
    use_threads(1)
    return DittoStages(
        load_audio_features(folder, device, hop_frames),
        load_motion_modes(folder, device, hop_frames, steps),
        load_renderer(load_avatar, folder, device, cache_bytes),
        LocalRife(lambda network: DittoTail(load_avatar, network, cache_bytes), rife or RifeSettings(), device),
    )
