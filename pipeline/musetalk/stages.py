"""MuseTalk's stages in this process: `pipeline.stages.Stages` without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engines.musetalk import FAMILY
from kernels.threads import use_threads
from pipeline.config import RifeSettings
from pipeline.musetalk.audio_features import HOP_FRAMES, MuseTalkAudioFeatures
from pipeline.musetalk.load import load_audio_features, load_renderer
from pipeline.musetalk.renderer import DEFAULT_CACHE_BYTES, MuseTalkRenderer
from pipeline.musetalk.spoken_frames import frames_of
from pipeline.musetalk.tail import MuseTalkTail
from pipeline.rife.local import LocalRife
from pipeline.session.stage_threads import StageThreads
from pipeline.stages import AudioFacts, StageInfo
from pipeline.types import Avatar


def stage_info(audio: AudioFacts) -> StageInfo:
    """What sessions must know: 320 ms of audio to the first frame, 200 of its hop and 120 of what follows."""
    return StageInfo(
        family=FAMILY,
        hop_frames=HOP_FRAMES,
        context_samples=audio.context_samples,
        lookahead_samples=audio.lookahead_samples,
        history_frames=1,
        doubles_in_motion_space=False,
        passes_rows_on=True,
    )


class MuseTalkStages(StageThreads):
    """`Stages` of the family `musetalk`.

    Args:
        audio: The speech encoder's stage.
        renderer: The renderer.
        rife: The interpolator's stage.
    """

    def __init__(self, audio: MuseTalkAudioFeatures, renderer: MuseTalkRenderer, rife: LocalRife) -> None:
        shape = audio.shape
        super().__init__(
            stage_info(AudioFacts(shape.left_samples, shape.lookahead_samples)), audio, frames_of, renderer, rife
        )


def load_stages(
    load_avatar: Callable[[str], Avatar],
    folder: Path | None = None,
    device: str = "cpu",
    *,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    rife: RifeSettings | None = None,
) -> MuseTalkStages:
    """Stages over the public checkpoints. Sets torch to one thread per operation, so that sums come out the same on every machine.

    Args:
        load_avatar: Id -> avatar.
        folder: Checkpoint folder; None means where `weights pull musetalk` puts it.
        device: Torch device of all stages.
        cache_bytes: Bound on prepared faces.
        rife: Settings of the interpolator, which is loaded when it is needed.

    Raises:
        WeightsFileError: A file is missing or of no use.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    use_threads(1)
    return MuseTalkStages(
        load_audio_features(folder, device),
        load_renderer(load_avatar, folder, device, cache_bytes),
        LocalRife(lambda network: MuseTalkTail(load_avatar, network, cache_bytes), rife or RifeSettings(), device),
    )
