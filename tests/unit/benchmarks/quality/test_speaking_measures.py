"""From a face that speaks to rows, with a face and a meter that answer from the sound itself."""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pytest

from benchmarks.core.run_info import RunInfo
from benchmarks.quality.aperture import Apertures, NoFaceError
from benchmarks.quality.lip_sync_records import closures_record, correlation_record, lag_record, silence_record
from benchmarks.quality.speaking import Sentence, ceiling_clips, rest_limit, silence_shares, spoken_clips
from engines.motion_layout import EXP
from kernels.errors import InvalidInputError
from pipeline.types import SAMPLES_PER_FRAME
from training.lip_sync import Span

REST = 0.02
RUN = RunInfo("cpu", "cpu, 2 cores", "2.13.0", "0123abc", date(2026, 1, 2), "python -m benchmarks.main_job")


class LoudnessFace:
    """Opens its mouth with the loudness of every frame; its 'mp4' is the apertures themselves."""

    def __init__(self, late: int = 0, stuck_open: bool = False, lost: int = 0) -> None:
        self.late, self.stuck_open, self.lost = late, stuck_open, lost

    def speak(self, pcm: np.ndarray) -> bytes:
        frames = -(-pcm.size // SAMPLES_PER_FRAME)
        padded = np.pad(pcm, (0, frames * SAMPLES_PER_FRAME - pcm.size)).reshape(frames, -1)
        loudness = np.sqrt((padded**2).mean(axis=1))
        aperture = REST + 0.3 * (np.ones(frames) if self.stuck_open else np.where(loudness < 0.01, 0, loudness))
        aperture = np.roll(aperture, self.late).astype(np.float32)
        aperture[: self.lost] = np.nan
        return aperture.tobytes()

    def film(self, motion: np.ndarray) -> bytes:
        return (REST + motion[:, EXP.start]).astype(np.float32).tobytes()

    def idle(self, frames: int) -> np.ndarray:
        return np.zeros((frames, 265), dtype=np.float32)

    def planes(self, pcm: np.ndarray, chunk_frames: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError


class Reader:
    def measure_video(self, video: bytes) -> Apertures:
        return Apertures(np.frombuffer(video, dtype=np.float32))


def sentence(seed: int, frames: int = 75, labelled: bool = True) -> Sentence:
    rng = np.random.default_rng(seed)
    opening = np.convolve(rng.random(frames + 6), np.hanning(9)[1:-1] / np.hanning(9).sum(), mode="valid")
    opening = ((opening - opening.min()) / np.ptp(opening)).astype(np.float32)
    opening[30:34] = 0.0
    pcm = np.repeat(opening, SAMPLES_PER_FRAME).astype(np.float32)
    exp = np.zeros((frames, 63), dtype=np.float32)
    exp[:, 0] = 0.3 * opening
    return Sentence(f"s{seed}", pcm, opening, (Span(30 / 25, 33 / 25),), exp if labelled else None)


SENTENCES = [sentence(seed) for seed in range(6)]


def test_rest_is_measured_on_the_filmed_idle_loop() -> None:
    assert rest_limit(LoudnessFace(), Reader()) == pytest.approx(REST + 0.02)


def test_a_face_that_follows_the_sound() -> None:
    clips = spoken_clips(LoudnessFace(), Reader(), SENTENCES)
    row = correlation_record(RUN, "main_job", "lip_sync_r", clips, ceiling=0.95)
    assert row.value == pytest.approx(1.0, abs=0.01)
    assert abs(row.baseline_value) < 0.3
    assert (row.n, row.floor_value) == (6, 0.95)
    assert lag_record(RUN, "main_job", "lip_sync_best_lag_frames", clips, None).value == 0
    shut = closures_record(RUN, "main_job", "closures_share", clips, REST + 0.02, None)
    assert (shut.value, shut.n) == (1.0, 6) and shut.baseline_value < 0.6


def test_a_late_face_is_measured_late() -> None:
    clips = spoken_clips(LoudnessFace(late=3), Reader(), SENTENCES)
    assert lag_record(RUN, "main_job", "lip_sync_best_lag_frames", clips, None).value == 3
    assert correlation_record(RUN, "main_job", "lip_sync_r", clips, None).value < 0.8


def test_the_ceiling_comes_from_the_labels() -> None:
    clips = ceiling_clips(LoudnessFace(stuck_open=True), Reader(), SENTENCES)
    assert correlation_record(RUN, "main_job", "lip_sync_r", clips, None).value == pytest.approx(1.0, abs=0.01)
    with pytest.raises(InvalidInputError, match="s9"):
        ceiling_clips(LoudnessFace(), Reader(), [sentence(9, labelled=False)])


def test_silence_after_speech_and_alone() -> None:
    speech = SENTENCES[0].pcm
    shares = silence_shares(LoudnessFace(), Reader(), speech, REST + 0.02)
    assert shares == {"digital": [1.0, 1.0], "noise": [1.0, 1.0]}
    clips = spoken_clips(LoudnessFace(), Reader(), SENTENCES)
    row = silence_record(RUN, "main_job", "silence_closed_share", shares, clips, REST + 0.02, frames=490)
    assert (row.value, row.n) == (1.0, 490) and 0 < row.baseline_value < 0.6
    stuck = silence_shares(LoudnessFace(stuck_open=True), Reader(), speech, REST + 0.02)
    assert stuck == {"digital": [0.0, 0.0], "noise": [0.0, 0.0]}


def test_the_lowest_share_is_the_one_that_counts() -> None:
    clips = spoken_clips(LoudnessFace(), Reader(), SENTENCES)
    row = silence_record(RUN, "main_job", "s", {"digital": [1.0, 1.0], "noise": [0.9, 1.0]}, clips, 0.04, frames=490)
    assert row.value == 0.9


def test_a_face_that_is_lost_cannot_be_judged() -> None:
    with pytest.raises(NoFaceError):
        spoken_clips(LoudnessFace(lost=2), Reader(), SENTENCES)


def test_a_video_of_the_wrong_length_is_refused() -> None:
    wrong = Sentence("short", SENTENCES[0].pcm[:-3000], SENTENCES[0].expected, (), None)
    with pytest.raises(InvalidInputError, match="short"):
        spoken_clips(LoudnessFace(), Reader(), [wrong])
