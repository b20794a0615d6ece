"""The page, served by the real application over the real renderer in this process, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("websockets")

from benchmarks.live.in_process import InProcessLive
from deployments.config import SessionHostSettings
from pipeline.avatars.face_crop import fit_canvas
from pipeline.avatars.portrait import decode_portrait
from pipeline.media.audio_in import decode_audio
from pipeline.media.resample import resample
from pipeline.mini.presenter import default_avatar
from pipeline.mini.registration import make_avatar
from pipeline.types import Avatar
from tests.browser.cdp import Page, chromium, find_chromium
from tests.support.faces import presenter
from tests.support.http_server import InProcessHost, Served, serving
from tests.support.media_samples import wav
from tests.support.require import missing

ROOT = Path(__file__).parents[2]
DEMO_SPEECH = ROOT / "docs" / "demo" / "speech.wav"
if os.environ.get("LIVEANCHOR_REQUIRE_BROWSER"):  # in continuous integration, where screenshots are kept
    os.environ.setdefault("LIVEANCHOR_SCREENSHOTS", str(ROOT / "out" / "screenshots"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(str(item.fspath)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))  # the service draws its presenter first, the browser starts


@pytest.fixture(scope="session")
def new_browser(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], AbstractContextManager[Page]]:
    """Starts a browser of one's own, which may come to harm."""
    path = find_chromium()
    if path is None:
        missing("BROWSER", "no Chromium here (Debian and Ubuntu: apt-get install chromium)")
    microphone = tmp_path_factory.mktemp("mic") / "mic.wav"
    microphone.write_bytes(_voice_with_pauses())
    return lambda: chromium(path, microphone)


@pytest.fixture(scope="session")
def browser(new_browser: Callable[[], AbstractContextManager[Page]]) -> Iterator[Page]:
    with new_browser() as page:
        yield page


def _voice_with_pauses() -> bytes:
    """The committed speech sample and a second of silence, 48 kHz; the browser plays it again and again."""
    spoken = decode_audio(DEMO_SPEECH).pcm[:, None]
    louder = np.concatenate([resample(spoken, 16_000, 48_000)[:, 0], np.zeros(48_000, np.float32)])
    return wav((louder * 32767).astype(np.int16), 48_000)


def speech(seconds: float, rate_hz: int = 16_000) -> bytes:
    """A buzz in syllables, as a WAV file."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    buzz = sum(np.sin(2 * np.pi * 130 * k * t) / k for k in range(1, 9))
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * t) + 0.3, 0, 1)
    return wav((8000 * buzz * syllables).astype(np.int16), rate_hz)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    import engines.mini.load
    from pipeline.mini.stages import LocalStages
    from training.export import export_encoder, export_lmdm

    folder = tmp_path_factory.mktemp("service")
    patch = pytest.MonkeyPatch()
    if not any(
        engines.mini.load.weights_folder().glob("*.safetensors")
    ):  # what the motion looks like does not matter here
        networks = engines.mini.load.random_networks()
        export_encoder(networks.encoder, folder)
        export_lmdm(networks.lmdm, networks.space, folder)
        patch.setattr(engines.mini.load, "weights_folder", lambda: folder)
    host = InProcessHost(folder)
    host.store.delete(host.default.avatar_id)
    host.default = default_avatar(host.store)
    host.stages = LocalStages(host.store.get)
    host.register = _register
    patient = {
        "max_sessions": 1,
        "connect_timeout_s": 120,
        "connect_grace_s": 120,
    }  # the page's own patience ends first
    live = SessionHostSettings.model_validate({"encoder": {"prefer": "x264", "threads": 1}, "live": patient})
    host.live = InProcessLive(
        live, host.stages, lambda avatar_id: host.store.get(avatar_id) if avatar_id else host.default, host.voice
    )
    with serving(folder, host, max_audio_s=20) as served:
        yield served
    host.stages.close()
    patch.undo()


def _register(data: bytes, name: str) -> Avatar:
    """The picture is really decoded and refused; the face is where it is drawn."""
    canvas = fit_canvas(decode_portrait(data))
    drawn = presenter()
    scale = np.array([canvas.shape[1] / drawn.rgb.shape[1], canvas.shape[0] / drawn.rgb.shape[0], 1.0], np.float32)
    return make_avatar(canvas, drawn.landmarks * scale, name)


@pytest.fixture
def url(service: Served) -> str:
    return f"http://127.0.0.1:{service.port}/"
