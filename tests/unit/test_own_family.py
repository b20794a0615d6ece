"""A family that nothing here knows speaks: as a file, through the graph's replicas, and live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline import families
from pipeline.avatars.bundle import load_bundle
from pipeline.config import SessionSettings
from pipeline.families import family_modules, find_family
from pipeline.live.contracts import Drive, EndReason
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_clock import MonotonicClock
from pipeline.live.session import LiveSession
from pipeline.live.settings import LiveSettings
from pipeline.media.audio_in import decode_audio
from pipeline.session.frames import clip_batches
from pipeline.session.local_job import LocalPipeline
from pipeline.stage_meter import StageMeter
from serve_app.cli.app import app
from tests.support.live import RecordingSink

ENTRY = Path(__file__).resolve().parents[1] / "support" / "bar_package"
LOUD, QUIET = 0.8, 0.2
"""Amplitudes of the voice: a second each, with a second of silence before, between and behind."""


@pytest.fixture(params=["table", "entry point"], autouse=True)
def bar(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The family, in the table or installed as a package."""
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path / "home"))
    if request.param == "table":
        monkeypatch.setitem(families.FAMILIES, "bar", "tests.support.bar_family")
    else:
        monkeypatch.syspath_prepend(ENTRY)
    families.installed_families.cache_clear()
    yield
    families.installed_families.cache_clear()


def voice() -> F32:
    silence = np.zeros(16_000, np.float32)
    wave = np.sin(np.arange(16_000) * 0.2).astype(np.float32)
    return np.concatenate([silence, LOUD * wave, silence, QUIET * wave, silence])


def heights(y_planes: np.ndarray) -> np.ndarray:
    """Share of each picture's left column that is lit."""
    return (y_planes[:, :64, 32] > 126).mean(axis=1)


def assert_follows(height: np.ndarray, pcm: F32) -> None:
    """The bar is as high as its frame is loud, but low in silence."""
    assert len(height) == 125 == len(pcm) // 640
    wanted = np.sqrt((pcm.reshape(125, 2, 320) ** 2).mean(axis=2)).mean(axis=1)
    np.testing.assert_allclose(height[30:48], wanted[30:48], atol=0.03)
    np.testing.assert_allclose(height[80:98], wanted[80:98], atol=0.03)
    assert height[30:48].min() > 3 * height[80:98].max() and height[80:98].min() > 0.02
    assert height[:24].max() == 0 and height[-5:].max() == 0


def test_it_is_one_of_the_families() -> None:
    assert list(family_modules())[:2] == ["mini", "ditto"] and "bar" in family_modules()
    family = find_family("bar")
    assert family.name == "bar" and "motion_diffusion" not in family.stages
    with pytest.raises(LookupError, match="no stage motion_diffusion"):
        family.load_motion(None, "cpu")
    with pytest.raises(InvalidInputError, match="bar"):
        find_family("rod")


def test_a_file_is_made_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_MODELS__FAMILY", "bar")
    wavfile.write(tmp_path / "voice.wav", 16_000, voice())
    out = tmp_path / "bar.mp4"
    done = CliRunner().invoke(app, ["generate", "--local", "--audio", str(tmp_path / "voice.wav"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    with av.open(str(out)) as container:
        lumas = np.stack([frame.to_ndarray()[: frame.height] for frame in container.decode(video=0)])
    assert_follows(heights(lumas), decode_audio((tmp_path / "voice.wav").read_bytes()).for_networks())


def test_an_avatar_is_registered_stored_checked_and_refused_where_its_arrays_are_wrong(tmp_path: Path) -> None:
    from dataclasses import replace

    from PIL import Image

    from pipeline.avatars.bundle import check_avatar

    picture = tmp_path / "me.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (300, 300, 3), np.uint8)).save(picture)
    pipeline = LocalPipeline(family="bar")
    made = pipeline.register(picture)
    assert made.family == "bar" and made.name == "me"
    again = load_bundle(pipeline.store.root / made.avatar_id, deep=True)
    np.testing.assert_array_equal(again.tensors["side"], [64])
    with pytest.raises(ShapeError, match="tensors.side"):
        check_avatar(replace(made, tensors={}))
    pipeline.close()


class Handle:
    """A deployment handle over one replica in this process."""

    def __init__(self, replica: Any, method: str = "") -> None:
        self._replica, self._method = replica, method

    def options(self, method_name: str, **_: Any) -> Handle:
        return Handle(self._replica, method_name)

    def __getattr__(self, name: str) -> Handle:
        return Handle(self._replica, name)

    async def remote(self, *args: Any) -> Any:
        answer = getattr(self._replica, self._method)(*args)
        return await answer if asyncio.iscoroutine(answer) else answer


def test_the_graph_s_replicas_serve_it_without_a_motion_stage() -> None:
    pytest.importorskip("ray.serve")
    from deployments.graph.audio_features import AudioFeaturesReplica
    from deployments.graph.renderer import RendererReplica
    from deployments.graph.stages import GraphStages, StageHandles, fetch_info
    from serve_app.config.settings import AppConfig

    async def scene() -> np.ndarray:
        config = AppConfig.model_validate({"models": {"family": "bar", "device": "cpu"}})
        ears = Handle(AudioFeaturesReplica(config.stage("audio_features")))
        painter = Handle(RendererReplica(config.stage("renderer")))
        handles = StageHandles(ears, None, painter, painter)  # type: ignore[arg-type]  # duck-typed
        info = await fetch_info(handles, "bar", 10.0)
        assert (info.hop_frames, info.lookahead_samples) == (4, 640)
        stages, avatar = StageMeter(GraphStages(handles, info, "s", 60.0)), LocalPipeline(family="bar").avatar()
        batches = [batch.y_planes async for batch in clip_batches(voice(), avatar, stages, SessionSettings(), 0)]
        assert set(stages.calls) == {"audio_features", "renderer"}
        return np.concatenate(batches)

    assert_follows(heights(asyncio.run(scene())), voice())


def test_no_gpu_share_is_held_for_a_stage_that_it_lacks() -> None:
    pytest.importorskip("ray.serve")
    from serve_app.config.declare import fit_to, serve_document
    from serve_app.config.settings import AppConfig

    config = fit_to(AppConfig.model_validate({"models": {"family": "bar"}}), 1.0)
    shares = {name: one.num_gpus for name, one in config.deployed().items() if one.num_gpus}
    assert shares == {"audio_features": 0.3, "renderer": 0.5, "rife": 0.2}
    [application] = serve_document(config, "127.0.0.1", 8000)["applications"]
    named = [one["name"] for one in application["deployments"]]
    assert named == ["Ingress", "SessionHost", "AudioFeatures", "Renderer", "Rife"]


def test_a_live_session_speaks_with_it() -> None:
    async def scene() -> None:
        sink, pipeline = RecordingSink(), LocalPipeline(family="bar")
        meter = StageMeter(pipeline.stages)
        avatar, settings = pipeline.avatar(), LiveSettings(idle_loop_frames=50)
        loops = IdleLoops(pipeline.stages, settings)
        await loops.warm(avatar)
        session = LiveSession(
            "s", meter, avatar, loops, sink, settings, SessionSettings(), Drive.PUSH, 3, MonotonicClock()
        )
        task = asyncio.create_task(session.run())
        session.connected()
        async with asyncio.timeout(120):
            await sink.until(lambda: len(sink.videos) >= 5)
            assert not meter.calls["audio_features"], "an idle bar costs no network"
            session.voice.speak(voice()[16_000:32_000])
            await sink.until(lambda: bool(sink.named("speaking_finished")))
            told = len(sink.videos)
            await sink.until(lambda: len(sink.videos) >= told + 25)
        session.end(EndReason.DELETED)
        assert await task is EndReason.DELETED
        assert "motion_diffusion" not in session.stats().stage_calls, "there is no such stage"
        lit = shown(sink)
        assert lit[:5].max() == 0 and lit[-3:].max() == 0
        assert np.median(lit[lit > 0.1]) == pytest.approx(LOUD / 2**0.5, abs=0.05)
        await loops.close()
        pipeline.close()

    asyncio.run(scene())


def shown(sink: RecordingSink) -> np.ndarray:
    """How high the bar is in every picture; one without a rectangle repeats the one before."""
    lit = [0.0]
    for tick in sink.videos:
        lit.append(lit[-1] if tick.rect is None else float((tick.rect.y_plane[:, 32] > 126).mean()))
    return np.array(lit[1:])
