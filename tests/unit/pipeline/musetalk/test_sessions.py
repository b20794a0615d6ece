"""MuseTalk speaks: as a file from the command line, through the graph's replicas, and live, with narrow networks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner

from engines.musetalk.checkpoints import load_whisper
from engines.musetalk.speech import SpeechEncoder
from kernels.arrays import F32
from kernels.errors import ShapeError
from pipeline.config import RifeSettings, SessionSettings, SilenceSettings
from pipeline.live.contracts import Drive, EndReason
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_clock import MonotonicClock
from pipeline.live.session import LiveSession
from pipeline.live.settings import LiveSettings
from pipeline.musetalk.audio_features import HOP_FRAMES, MuseTalkAudioFeatures
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.bypass import Bypass
from pipeline.musetalk.face_rows import SHARE, read_rows
from pipeline.musetalk.renderer import MuseTalkEngines, MuseTalkRenderer
from pipeline.musetalk.spoken_frames import MuseTalkCarry, frames_of, start_carry
from pipeline.musetalk.stages import MuseTalkStages
from pipeline.musetalk.tail import MuseTalkTail
from pipeline.rife.local import LocalRife
from pipeline.session.frames import clip_batches
from pipeline.session.local_job import LocalPipeline
from pipeline.session.speech_motion import SpeechMotion
from pipeline.stage_meter import StageMeter
from pipeline.stages import CarryError
from pipeline.types import AudioChunk, FeatureRows
from tests.support.live import RecordingSink
from tests.support.musetalk import Ears, Stamp, clip_avatar, narrow_folder
from tests.unit.test_own_family import Handle


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


def voice(loud_s: float = 1.0) -> F32:
    """A second of silence, speech-like noise, a second of silence."""
    silence, rng = np.zeros(16_000, np.float32), np.random.default_rng(0)
    wave = 0.2 * rng.standard_normal(int(16_000 * loud_s))
    return np.concatenate([silence, wave, silence]).astype(np.float32)


def stage() -> MuseTalkAudioFeatures:
    return MuseTalkAudioFeatures(SpeechEncoder(load_whisper(narrow_folder())), "v")


def pipeline_of() -> LocalPipeline:
    return LocalPipeline(family="musetalk", weights=narrow_folder())


def test_a_hop_has_its_own_rows_with_four_on_either_side_and_its_loudness() -> None:
    ears = stage()
    assert ears.window_samples == 32_000 + HOP_FRAMES * 640 + 1920
    window = np.zeros(ears.window_samples, np.float32)
    window[32_000 + 640 * 4 :] = 0.1
    window[32_000 + 640 * 4 + 1 :: 2] = -0.1
    rows = ears.window(window, 50)
    assert rows.rows.shape == (4 + 2 * HOP_FRAMES + 4, 1921) and (rows.rate_hz, rows.first_row) == (50, 50)
    levels = rows.rows[4:-4, -1]
    np.testing.assert_array_equal(levels[0::2], levels[1::2])
    assert levels[2] == 0 < levels[4] < levels[6] < levels[8] and not rows.rows[:4, -1].any()
    longer = ears.window(np.zeros(ears.window_samples + 640, np.float32), 0)
    assert len(longer.rows) == len(rows.rows) + 2
    with pytest.raises(ShapeError, match="window"):
        ears.window(window[1:], 0)


def test_the_first_frames_see_zeros_where_there_was_no_sound_yet() -> None:
    rows = FeatureRows(np.ones((4 + 4 + 4, 1921), np.float32), 50, 0)
    chunk, carry = frames_of(rows, start_carry(np.zeros((1, 2), np.float32), 0, 7))
    assert isinstance(carry, MuseTalkCarry) and (carry.next_frame, carry.epoch) == (2, 7)
    windows = chunk.motion[:, 2:].reshape(2, 10, 1920)[:, :, 0]
    np.testing.assert_array_equal(windows[0], [0] * 4 + [1] * 6)
    np.testing.assert_array_equal(windows[1], [0] * 2 + [1] * 8)
    later, _ = frames_of(FeatureRows(rows.rows, 50, 100), carry)
    assert (later.motion[:, 2:] == 1).all() and later.first_frame == 2
    with pytest.raises(CarryError):
        frames_of(rows, object())  # type: ignore[arg-type]  # refused
    with pytest.raises(ShapeError, match="rows"):
        frames_of(FeatureRows(rows.rows[:9], 50, 0), carry)


def test_speech_goes_on_from_the_share_that_is_shown() -> None:
    shown = np.array([[0.0, 1.0], [0.5, 1.0]], np.float32)
    assert start_carry(shown, 3, 0).bypass == Bypass(weight=0.5)


def motion_of(pcm: F32, packet: int) -> F32:
    """All rows of a clip whose samples come in packets."""
    pipeline = pipeline_of()
    avatar = clip_avatar()

    async def packets() -> AsyncIterator[AudioChunk]:
        for start in range(0, len(pcm), packet):
            yield AudioChunk(pcm[start : start + packet], start)

    async def scene() -> F32:
        from pipeline.session.behaviour import behaviour_of

        made = SpeechMotion(pipeline.stages, SilenceSettings(), 0, behaviour=behaviour_of(avatar))
        return np.concatenate([chunk.motion async for chunk in made.run(packets())])

    try:
        return asyncio.run(scene())
    finally:
        pipeline.close()


def test_rows_are_the_same_for_any_packet_size_and_fade_at_both_edges() -> None:
    pcm = voice()
    whole = motion_of(pcm, len(pcm))
    for packet in (160, 4001):
        np.testing.assert_array_equal(motion_of(pcm, packet), whole)
    shares = whole[:, SHARE][:, 0]
    assert len(shares) == 75 and not shares[:22].any(), "nothing is painted in the first second"
    np.testing.assert_allclose(shares[23:27], [0.25, 0.5, 0.75, 1.0])
    assert (shares[27:52] == 1).all() and not shares[62:].any(), "and nothing soon after the end"
    falling = shares[50:64]
    assert (np.diff(falling) <= 0).all() and np.diff(falling).min() >= -0.5


def test_a_fade_keeps_what_is_said_and_lets_it_go() -> None:
    from pipeline.musetalk.face_rows import pack_rows, silent_rows
    from pipeline.session.idle_fade import IdleFade

    windows = np.random.default_rng(0).standard_normal((1, 19_200)).astype(np.float32)
    last = pack_rows(np.ones(1, np.float32), windows)
    fade = IdleFade.from_pose(last[0], silent_rows(1)[0], 10, SHARE)
    rows = fade.apply(silent_rows(16), 10)
    told, own = read_rows(rows, np.ones(16, np.bool_)), read_rows(last, np.ones(1, np.bool_))
    assert len(told.tokens) == 3 and (np.diff(told.shares[:4]) < 0).all() and not told.shares[3:].any()
    for tokens in told.tokens:
        np.testing.assert_allclose(tokens, own.tokens[0], atol=1e-4)


def test_a_file_is_made_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from serve_app.cli.app import app

    monkeypatch.setenv("LIVEANCHOR_MODELS__FAMILY", "musetalk")
    monkeypatch.setenv("LIVEANCHOR_MODELS__WEIGHTS_DIR", str(narrow_folder()))
    pipeline = pipeline_of()
    avatar = pipeline.store.put(clip_avatar())
    pipeline.close()
    wavfile.write(tmp_path / "voice.wav", 16_000, voice())
    out = tmp_path / "out.mp4"
    told = [
        "generate",
        "--local",
        "--audio",
        str(tmp_path / "voice.wav"),
        "--avatar",
        avatar.avatar_id,
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(app, told)
    assert done.exit_code == 0, done.output
    with av.open(str(out)) as container:
        whole = np.stack([frame.to_ndarray()[: frame.height] for frame in container.decode(video=0)]).astype(int)
    rect = avatar.rect
    lumas = whole[:, rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
    tensors = unpack(avatar)
    assert tensors.y_planes is not None and len(lumas) == 75
    turn = [0, 1, 2, 3, 4, 3, 2, 1]
    away = np.array([np.abs(luma - tensors.y_planes[turn[i % 8]]).mean() for i, luma in enumerate(lumas)])
    assert away[:20].max() < 2 and away[-10:].max() < 2, "the clip plays on in silence"
    patch, corner = tensors.patches.shape[1:3], tensors.corners - (rect.x, rect.y)

    def mouth(i: int) -> float:
        place = turn[i % 8]
        x, y = corner[place]
        own = tensors.y_planes[place][y : y + patch[0], x : x + patch[1]]  # type: ignore[index]
        return float(np.abs(lumas[i][y : y + patch[0], x : x + patch[1]] - own).mean())

    assert min(mouth(i) for i in range(30, 48)) > 3 * max(mouth(i) for i in range(20))


def test_the_graph_s_replicas_serve_it_as_this_process_does() -> None:
    pytest.importorskip("ray.serve")
    from deployments.graph.audio_features import AudioFeaturesReplica
    from deployments.graph.renderer import RendererReplica
    from deployments.graph.stages import GraphStages, StageHandles, fetch_info
    from deployments.host.own_pictures import HostedOwnPictures
    from serve_app.config.settings import AppConfig

    async def scene() -> tuple[np.ndarray, np.ndarray]:
        models = {"family": "musetalk", "device": "cpu", "weights_dir": str(narrow_folder())}
        config = AppConfig.model_validate({"models": models})
        pipeline = pipeline_of()
        avatar = pipeline.store.put(clip_avatar())
        listener = AudioFeaturesReplica(config.stage("audio_features"))
        ears = Handle(listener)
        painter = Handle(RendererReplica(config.stage("renderer")))
        handles = StageHandles(ears, None, painter, painter)  # type: ignore[arg-type]  # duck-typed
        info = await fetch_info(handles, "musetalk", 10.0)
        assert listener._probe(2) == 10, "frames of hops, not the rows around them"
        assert info == pipeline.stages.info
        own = HostedOwnPictures({avatar.avatar_id: avatar}.__getitem__)
        stages = StageMeter(GraphStages(handles, info, "s", 60.0, own_pictures=own))
        drawn = [one.y_planes async for one in clip_batches(voice(0.4), avatar, stages, SessionSettings(), 0)]
        assert set(stages.calls) == {"audio_features", "renderer"}
        here = [one.y_planes async for one in clip_batches(voice(0.4), avatar, pipeline.stages, SessionSettings(), 0)]
        pipeline.close()
        return np.concatenate(drawn), np.concatenate(here)

    through, local = asyncio.run(scene())
    assert len(through) == 60 and np.abs(through.astype(int) - local).max() <= 2


def test_a_live_session_listens_in_its_clip_and_speaks_with_it() -> None:
    """The networks are stood in for, so that pictures come in time on a busy machine."""

    async def scene() -> None:
        avatar = clip_avatar()
        tensors = unpack(avatar)
        renderer = MuseTalkRenderer(lambda _: avatar, MuseTalkEngines(Stamp(), tensors.version, 4))
        rife = LocalRife(lambda network: MuseTalkTail(lambda _: avatar, network), RifeSettings(), "cpu")
        stages = MuseTalkStages(MuseTalkAudioFeatures(Ears()), renderer, rife)
        sink, meter, settings = RecordingSink(), StageMeter(stages), LiveSettings(idle_loop_frames=50)
        loops = IdleLoops(stages, settings)
        await loops.warm(avatar)
        loop = loops.open(avatar, SessionSettings())
        assert loop.pictures is not None and len(loop.pictures.loop) == 5 and tensors.y_planes is not None
        for tick, place in enumerate([0, 1, 2, 3, 4, 3, 2, 1, 0, 1]):
            np.testing.assert_array_equal(loop.picture(tick).y_plane, tensors.y_planes[place])
        session = LiveSession(
            "s", meter, avatar, loops, sink, settings, SessionSettings(), Drive.PUSH, 3, MonotonicClock()
        )
        task = asyncio.create_task(session.run())
        session.connected()
        async with asyncio.timeout(120):
            await sink.until(lambda: len(sink.videos) >= 5)
            assert not meter.calls["audio_features"], "silence costs no network"
            session.voice.speak(voice(2.0)[16_000:48_000])
            await sink.until(lambda: bool(sink.named("speaking_finished")))
            told = len(sink.videos)
            await sink.until(lambda: len(sink.videos) >= told + 25)
        session.end(EndReason.DELETED)
        assert await task is EndReason.DELETED
        assert meter.calls["audio_features"] and "motion_diffusion" not in session.stats().stage_calls
        painted = [tick.rect is not None and tick.rect.over is not None for tick in sink.videos]
        assert any(painted[5:told]) and not any(painted[:5]) and not any(painted[-3:])
        await loops.close()
        stages.close()

    asyncio.run(scene())


def test_the_drawn_presenter_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = pipeline_of()
    first = pipeline.avatar()
    assert first.family == "musetalk" and unpack(first).faces.all()
    from pipeline.presenter import draw

    monkeypatch.setattr(draw, "draw_presenter", None)
    assert pipeline.avatar().avatar_id == first.avatar_id
    pipeline.close()


def test_the_distance_from_a_whole_file_s_rows_is_measured() -> None:
    from benchmarks.musetalk.streaming_rows import distances

    far = distances(SpeechEncoder(load_whisper(narrow_folder())), voice(0.8)[:40_000])
    assert len(far) == 5 and all(0 < one < 2 for one in far)
