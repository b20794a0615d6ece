"""A presenter in this process: films, chunked and one-pass planes, labelled sentences. Networks are random, pictures real."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.decode import decode_luma, decode_rgb
from benchmarks.quality.boundaries import max_level_difference
from benchmarks.quality.held_out import labelled_sentence
from benchmarks.quality.local_face import LocalFace, wav_of
from engines.mini.load import make_engines, random_networks
from pipeline.media.audio_in import decode_audio
from pipeline.mini.load import make_speech_stages
from pipeline.mini.registration import make_avatar
from pipeline.presenter.draw import draw_presenter
from pipeline.session.local_job import LocalPipeline
from training.phones import Phone


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> LocalFace:
    drawing = draw_presenter(360, 640)
    pipeline = LocalPipeline(tmp_path_factory.mktemp("home"))
    return LocalFace(pipeline.store.put(make_avatar(drawing.rgb, drawing.landmarks)), pipeline)


@pytest.fixture
def random_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """Untrained networks: the path is tested, not the lips."""
    stages = make_speech_stages(make_engines(random_networks()))
    monkeypatch.setattr("pipeline.mini.stages.load_speech_stages", lambda device, folder: stages)


def test_a_film_shows_every_row_of_motion(face: LocalFace, one_thread: None) -> None:
    motion = face.idle(27)  # more than one chunk of film
    video = face.film(motion)
    frames = list(decode_rgb(video))
    assert len(frames) == 27 and frames[0].shape == (640, 360, 3)
    canvases = face.canvases(motion)
    for luma, canvas in zip(decode_luma(video), canvases, strict=True):
        assert np.abs(luma.astype(int) - canvas.y_plane).mean() < 2.0
    assert not np.array_equal(canvases[0].y_plane, canvases[-1].y_plane)


def test_chunks_and_one_pass_give_the_same_frames(face: LocalFace, random_speech: None) -> None:
    pcm = (0.2 * np.random.default_rng(0).standard_normal(640 * 11 + 100)).astype(np.float32)
    whole = list(face.planes(pcm, None))
    chunked = list(face.planes(pcm, 4))
    assert len(whole) == len(chunked) == 12
    assert len(face.motion(pcm)) == 12
    assert max_level_difference((y for y, _ in whole), (y for y, _ in chunked)) <= 1
    assert len(list(decode_luma(face.speak(pcm)))) == 12


def test_the_wav_keeps_samples_exactly() -> None:
    pcm = np.array([0.0, 1e-4, -0.5, 0.25], dtype=np.float32)
    np.testing.assert_array_equal(decode_audio(wav_of(pcm)).pcm[:4], pcm)


def test_labelled_sentence() -> None:
    phones = [Phone("sil", 0.0, 0.4), Phone("m", 0.4, 0.5), Phone("ɑ", 0.5, 0.9), Phone("sil", 0.9, 1.3)]
    made = labelled_sentence("x", np.zeros(round(1.3 * 16000), dtype=np.float32), phones)
    assert made.expected.shape == (33,) and made.label_exp is not None and made.label_exp.shape == (33, 63)
    assert [(span.start_s, span.end_s) for span in made.closures] == [(0.4, 0.5)]
    assert made.expected[17] == pytest.approx(1.0) and made.expected[2] == 0.0
    jaw_rows = np.abs(made.label_exp).sum(axis=1)
    assert jaw_rows[2] == 0.0 and jaw_rows[17] > 0.1


def test_film_needs_no_weights(face: LocalFace, tmp_path: Path) -> None:
    alone = LocalFace(face.avatar, LocalPipeline(tmp_path))
    assert len(list(decode_luma(alone.film(alone.idle(2))))) == 2
