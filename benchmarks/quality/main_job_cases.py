"""The cases of `main_job`: which measure makes which, and how each is taken."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.quality.boundaries import (
    StepDifferences,
    boundary_diff_ratio,
    max_level_difference,
    off_boundary_ratios,
)
from benchmarks.quality.encode_speed import converting_encode_fps, encode_fps, nv12_psnr_db
from benchmarks.quality.held_out import labelled_sentence
from benchmarks.quality.lip_sync_records import closures_record, correlation_record, lag_record, silence_record
from benchmarks.quality.local_face import large_presenter_face, portrait_face, wav_of
from benchmarks.quality.main_job_run import SUITE, CaseLeftOut, MainJob, Measure
from benchmarks.quality.motion_speed import measure as measure_motion_speed
from benchmarks.quality.renderer_speed import measure as measure_renderer_speed
from benchmarks.quality.speaking import SILENCE_S, ceiling_clips, silence_shares, spoken_clips
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.config import EncoderSettings
from pipeline.media.audio_in import decode_audio
from pipeline.media.encoder import Purpose
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ
from training.lip_sync import AFTER_SPEECH_S, best_lag, pooled_r
from training.real_speech import load as load_real_speech
from training.utterance import SynthesisError

BOUNDARY_CHUNKS: Final = (4, 8, 16)
PARITY_CHUNKS: Final = (4, 8, 16, 25)
JOB_S: Final = 10
JOB_RUNS: Final = 5
ENCODE_FRAMES: Final = 100
ENCODE_RUNS: Final = 7
PSNR_FRAMES: Final = 150
PLAIN_X264: Final = EncoderSettings(prefer="x264", file_preset="veryfast", file_crf=20)
"""Settings that a first attempt at a file encoder would use; measured as the baseline of ours."""


def lips(job: MainJob) -> list[BenchmarkRecord]:
    """The default presenter speaks the held-out sentences."""
    speech = job.presenter_speech
    return [
        correlation_record(job.run, SUITE, "lip_sync_r", speech.clips, speech.ceiling_r),
        lag_record(job.run, SUITE, "lip_sync_best_lag_frames", speech.clips, abs(best_lag(speech.ceiling)[0])),
        closures_record(job.run, SUITE, "closures_share", speech.clips, speech.limit, speech.ceiling_closures),
    ]


def portrait_lips(job: MainJob) -> list[BenchmarkRecord]:
    """A photo speaks the held-out sentences."""
    if job.options.portrait is None:
        raise CaseLeftOut("no --portrait was given")
    speech = job.measure(portrait_face(job.pipeline, job.options.portrait))
    return [correlation_record(job.run, SUITE, "lip_sync_r_portrait", speech.clips, speech.ceiling_r)]


def real_lips(job: MainJob) -> list[BenchmarkRecord]:
    """The default presenter speaks recordings of people."""
    try:
        spoken = load_real_speech()
    except (InvalidInputError, SynthesisError) as error:
        raise CaseLeftOut(str(error)) from error
    sentences = [labelled_sentence(f"{u.voice} #{i}", u.audio, u.phones) for i, u in enumerate(spoken)]
    clips = spoken_clips(job.presenter, job.meter, sentences)
    ceiling = pooled_r(ceiling_clips(job.presenter, job.meter, sentences))
    return [correlation_record(job.run, SUITE, "lip_sync_r_real", clips, ceiling)]


def silence(job: MainJob) -> list[BenchmarkRecord]:
    """The default presenter is silent, alone and right after a sentence."""
    speech = job.presenter_speech
    shares = silence_shares(job.presenter, job.meter, job.sentences[0].pcm, speech.limit)
    frames = round(2 * (2 * SILENCE_S - AFTER_SPEECH_S) * MOTION_FPS)
    return [silence_record(job.run, SUITE, "silence_closed_share", shares, speech.clips, speech.limit, frames)]


def renderer_speed(job: MainJob) -> list[BenchmarkRecord]:
    """The mesh renderer, one thread."""
    found = measure_renderer_speed(6 if job.options.quick else 24)
    return [
        _from_measure(
            job, "renderer_ms_per_frame", found, "warp of the crop that fills triangle by triangle, no teeth, no lids"
        )
    ]


def motion_speed(job: MainJob) -> list[BenchmarkRecord]:
    """Features and motion, one thread."""
    found = measure_motion_speed(10 if job.options.quick else 40)
    return [_from_measure(job, "mini_motion_ms_per_frame", found, "same networks, nothing hoisted, 10 steps, guided")]


def _from_measure(job: MainJob, case: str, found: dict[str, float], baseline: str) -> BenchmarkRecord:
    return make_record(
        job.run,
        suite=SUITE,
        case=case,
        unit="ms",
        samples=[found["value"]],
        spread=(found["p5"], found["p95"]),
        n=int(found["n"]),
        higher_is_better=False,
        baseline=baseline,
        baseline_value=found["baseline_value"],
    )


def local_job(job: MainJob) -> list[BenchmarkRecord]:
    """A whole file job of 10 s of speech, from wav bytes to the mp4 on disk, weights and presenter loaded."""
    decoded = wav_of(_speech(job, JOB_S))
    times = []
    with TemporaryDirectory() as folder:
        for _ in range(2 if job.options.quick else JOB_RUNS + 1):
            began = time.perf_counter()
            job.pipeline.generate_file(decode_audio(decoded), Path(folder) / "job.mp4", job.presenter.avatar)
            times.append(time.perf_counter() - began)
    return [
        make_record(
            job.run,
            suite=SUITE,
            case="local_job_rtf_10s",
            unit="s/s",
            samples=[seconds / JOB_S for seconds in times[1:]],
            higher_is_better=False,
        )
    ]


def boundaries(job: MainJob) -> list[BenchmarkRecord]:
    """Frame-to-frame luma differences of the default presenter, every sentence at every chunk size; the worst size counts."""
    ratios = {}
    for chunk in BOUNDARY_CHUNKS:
        steps = [StepDifferences.of(y for y, _ in job.presenter.planes(s.pcm, chunk)) for s in job.sentences]
        ratios[chunk] = (boundary_diff_ratio(steps, chunk), max(off_boundary_ratios(steps, chunk)))
    worst, elsewhere = max(ratios.values())
    return [
        make_record(
            job.run,
            suite=SUITE,
            case="boundary_diff_ratio",
            unit="1",
            samples=[ratio for ratio, _ in ratios.values()],
            value=worst,
            n=len(job.sentences),
            higher_is_better=False,
            baseline="largest such ratio at a phase that is no boundary",
            baseline_value=elsewhere,
            floor_value=1.0,
        )
    ]


def parity(job: MainJob) -> list[BenchmarkRecord]:
    """Every NV12 sample of the face rectangle, chunked against one pass at the same motion hop."""
    pcm = job.sentences[0].pcm
    whole = [plane for pair in job.presenter.planes(pcm, None) for plane in pair]
    worst = [
        max_level_difference((plane for pair in job.presenter.planes(pcm, chunk) for plane in pair), whole)
        for chunk in PARITY_CHUNKS
    ]
    return [
        make_record(
            job.run,
            suite=SUITE,
            case="chunk_parity_max_level",
            unit="levels",
            samples=[float(level) for level in worst],
            value=float(max(worst)),
            higher_is_better=False,
            floor_value=0.0,
        )
    ]


def encode_speed(job: MainJob) -> list[BenchmarkRecord]:
    """The H.264 encoder on the presenter, drawn at 1080x1920 and speaking."""
    frames = 20 if job.options.quick else ENCODE_FRAMES
    canvases = large_presenter_face(job.pipeline).canvases(_spoken_motion(job, frames))
    records = []
    purposes: tuple[tuple[str, Purpose], ...] = (("ultrafast", "live"), ("file", "file"))
    for case, purpose in purposes:
        settings = EncoderSettings(prefer="x264")
        ours: list[float] = []
        plain: list[float] = []
        for _ in range(2 if job.options.quick else ENCODE_RUNS):  # in turn, so that a busy machine slows both
            plain += converting_encode_fps(canvases, purpose, settings, repeats=1)
            ours += encode_fps(canvases, purpose, settings, repeats=1)
        records.append(
            make_record(
                job.run,
                suite=SUITE,
                case=f"encode_1080x1920_fps_{case}",
                unit="fps",
                samples=ours,
                higher_is_better=True,
                baseline="NV12 converted to planar 4:2:0 before the encoder",
                baseline_value=float(np.median(plain)),
            )
        )
    return records


def encode_quality(job: MainJob) -> list[BenchmarkRecord]:
    """The finished file of the speaking presenter, decoded, against the NV12 that went in."""
    canvases = job.presenter.canvases(_spoken_motion(job, 20 if job.options.quick else PSNR_FRAMES))
    ours = nv12_psnr_db(canvases, EncoderSettings(prefer="x264"))
    plain = nv12_psnr_db(canvases, PLAIN_X264)
    return [
        make_record(
            job.run,
            suite=SUITE,
            case="nv12_encode_psnr_db",
            unit="dB",
            samples=ours.per_picture_db,
            value=ours.psnr_db,
            higher_is_better=True,
            baseline=f"veryfast, CRF 20 ({plain.kbps:.0f} kbit/s; ours {ours.kbps:.0f})",
            baseline_value=plain.psnr_db,
        )
    ]


def _speech(job: MainJob, seconds: float) -> F32:
    """Held-out sentences one after the other, cut or repeated to a length."""
    voice = np.concatenate([sentence.pcm for sentence in job.sentences])
    return np.resize(voice, round(seconds * SAMPLE_RATE_HZ)).astype(np.float32)


def _spoken_motion(job: MainJob, frames: int) -> F32:
    return job.presenter.motion(_speech(job, frames / MOTION_FPS))[:frames]


MEASURES: Final[dict[Measure, tuple[str, ...]]] = {
    lips: ("lip_sync_r", "lip_sync_best_lag_frames", "closures_share"),
    portrait_lips: ("lip_sync_r_portrait",),
    real_lips: ("lip_sync_r_real",),
    silence: ("silence_closed_share",),
    renderer_speed: ("renderer_ms_per_frame",),
    motion_speed: ("mini_motion_ms_per_frame",),
    local_job: ("local_job_rtf_10s",),
    boundaries: ("boundary_diff_ratio",),
    parity: ("chunk_parity_max_level",),
    encode_speed: ("encode_1080x1920_fps_ultrafast", "encode_1080x1920_fps_file"),
    encode_quality: ("nv12_encode_psnr_db",),
}
