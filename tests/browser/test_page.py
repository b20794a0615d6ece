"""The web page as a person uses it: choose, record, watch while it is made, download; errors, keyboard, phone, dark."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import pytest
from PIL import Image

from tests.browser.boxes import top_boxes
from tests.browser.cdp import Page
from tests.browser.conftest import speech
from tests.support.faces import presenter
from tests.support.http_server import Gate, Served, small_avatar, wait_for

SHOTS_ENV = "LIVEANCHOR_SCREENSHOTS"
DESKTOP = (1280, 900)
PHONE = (390, 844)


@pytest.fixture
def page(browser: Page, service: Served, url: str) -> Iterator[Page]:
    browser.view(*DESKTOP)
    browser.open(url)
    browser.wait("document.querySelectorAll('.tile').length >= 2 && !document.querySelector('#poster').hidden")
    browser.wait("[...document.images].every(i => i.complete)")
    browser.events.clear()
    yield browser
    assert not browser.problems()
    browser.open("about:blank")


@pytest.fixture
def shot(page: Page, tmp_path: Path) -> Callable[[str], None]:
    """Take a picture where somebody wants to look at them."""
    folder = os.environ.get(SHOTS_ENV)
    return lambda name: page.picture(Path(folder) / f"{name}.png") if folder else None


@pytest.fixture
def wav_file(tmp_path: Path) -> Path:
    path = tmp_path / "good evening.wav"
    path.write_bytes(speech(2.0))
    return path


@pytest.fixture
def portrait_file(tmp_path: Path) -> Path:
    path = tmp_path / "Anna Example.png"
    Image.fromarray(presenter().rgb[:, ::-1]).save(path)
    return path


def text(page: Page, selector: str) -> str:
    found: str = page.evaluate(f"document.querySelector({selector!r}).innerText.trim()")
    return found


def shown(page: Page, selector: str) -> bool:
    return bool(page.evaluate(f"document.querySelector({selector!r}).checkVisibility()"))


def make_video(page: Page) -> None:
    page.click("#make")
    page.wait("document.querySelector('#done').checkVisibility()")


def downloaded(page: Page, folder: Path) -> bytes:
    """What the download button really saves."""
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.click("#download")
    path = folder / "liveanchor.mp4"
    wait_for(lambda: path.exists() and path.stat().st_size and not list(folder.glob("*.crdownload")))
    return path.read_bytes()


@contextmanager
def held(service: Served, after: int) -> Iterator[Gate]:
    """The renderer stands still after so many calls, until the gate is set."""
    real, gate = service.host.stages, Gate()
    calls = 0

    class Held:
        info = real.info
        audio_features = staticmethod(real.audio_features)
        motion_diffusion = staticmethod(real.motion_diffusion)

        @staticmethod
        async def renderer(request: object) -> object:
            nonlocal calls
            calls += 1
            if calls > after:
                await gate.wait()
            return await real.renderer(request)

    service.host.stages = Held()
    try:
        yield gate
    finally:
        gate.set()
        service.host.stages = real


def test_upload_watch_download(page: Page, wav_file: Path, tmp_path: Path, shot: Callable[[str], None]) -> None:
    shot("1-start")
    assert (
        page.evaluate("document.querySelector('#make').disabled")
        and text(page, "#make-hint") == "Add speech or text first."
    )
    page.choose_file("#audio", wav_file)
    page.wait("!document.querySelector('#make').disabled")
    assert text(page, "#speech-name") == "good evening.wav"
    shot("2-ready")
    page.click("#make")
    page.wait("document.querySelector('#progress-box').checkVisibility()")
    shot("3-making")
    page.wait("document.querySelector('#done').checkVisibility()")
    page.wait("document.querySelector('#video').readyState >= 2 && document.querySelector('#video').videoWidth === 720")
    assert page.evaluate("document.querySelector('#video').videoHeight") == 1280
    assert abs(page.evaluate("document.querySelector('#video').duration") - 2.0) < 0.1
    assert "2.0 s, 720 × 1280, 25 fps" in text(page, "#facts")
    assert page.evaluate("document.querySelector('#download').download") == "liveanchor.mp4"
    data = downloaded(page, tmp_path)
    tops = top_boxes(data)
    assert tops == ["ftyp", "moov", "mdat"], "a plain file with its index in front"
    with av.open(io.BytesIO(data)) as container:
        assert (container.duration, container.streams.video[0].frames) == (2_000_000, 50)
        assert container.streams.audio[0].frames > 0 and container.streams.video[0].average_rate == 25
        assert sum(1 for _ in container.decode(video=0)) == 50
    page.wait("document.querySelector('#video').ended || document.querySelector('#video').currentTime > 1")
    shot("4-done")
    page.click("#make")
    page.wait("document.querySelector('#progress-box').checkVisibility()")
    page.wait("document.querySelector('#done').checkVisibility()")


def test_it_plays_before_it_is_finished(page: Page, service: Served, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(speech(6.0))
    with held(service, after=16) as gate:
        page.choose_file("#audio", path)
        page.click("#make")
        page.wait(
            "document.querySelector('#video').buffered.length && document.querySelector('#video').buffered.end(0) > 2"
        )
        assert not shown(page, "#done") and text(page, "#progress-text").endswith("of 0:06")
        assert 0.3 < page.evaluate("document.querySelector('#progress').value") < 0.95
        page.evaluate("document.querySelector('#video').play().then(() => true)")
        page.wait("document.querySelector('#video').currentTime > 0.3")
        gate.set()
        page.wait("document.querySelector('#done').checkVisibility()")


def test_a_browser_that_cannot_play_a_part_shows_the_whole(page: Page, wav_file: Path) -> None:
    page.evaluate("delete window.MediaSource; delete window.ManagedMediaSource; true")
    page.choose_file("#audio", wav_file)
    make_video(page)
    page.wait("document.querySelector('#video').readyState >= 2 && document.querySelector('#video').videoWidth === 720")
    assert page.evaluate("document.querySelector('#video').src.startsWith('blob:')")


@pytest.mark.parametrize(
    ("made", "total", "took", "starts"),
    [
        (0.2, 10, 0.1, False),  # too little to be safe
        (1.0, 10, 0.5, True),  # made twice as fast as it plays
        (1.0, 10, 2.0, False),  # half as fast: it would run dry
        (5.7, 10, 11.4, True),  # half as fast, but more than half is there
        (2.0, 2, 60.0, True),  # all there
    ],
)
def test_when_playing_may_begin(page: Page, made: float, total: float, took: float, starts: bool) -> None:
    found = page.evaluate(f"import('/static/player.js').then(m => m.mayStart({made}, {total}, {took}))")
    assert found is starts


def test_record_and_make(page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    page.click("#record")
    page.wait(
        "document.querySelector('#recording').checkVisibility() && document.querySelector('#recording-time').innerText >= '0:02'"
    )
    page.wait("parseFloat(getComputedStyle(document.querySelector('#level')).getPropertyValue('--level')) > 0.02")
    shot("5-recording")
    assert page.evaluate("document.activeElement.id") == "stop"
    page.press("Enter")
    page.wait("document.querySelector('#speech').checkVisibility()")
    assert text(page, "#speech-name").startswith("recording.")
    make_video(page)
    with av.open(io.BytesIO(downloaded(page, tmp_path))) as container:
        assert container.streams.audio and sum(1 for _ in container.decode(video=0)) >= 25


def test_a_portrait_of_ones_own(
    page: Page, service: Served, portrait_file: Path, wav_file: Path, shot: Callable[[str], None]
) -> None:
    page.choose_file("#portrait", portrait_file)
    page.wait("document.querySelectorAll('.tile input[type=radio]').length === 2")
    assert text(page, "#presenter-status") == "Anna Example, 360 × 640. Added for everybody who uses this page."
    assert "everybody who uses this page can choose or remove it" in text(page, "#portrait-hint")
    assert text(page, "#remove-presenter") == "Remove it for everybody…"
    assert page.evaluate("document.querySelector('.tile:has(:checked) .label').innerText") == "Anna Example"
    page.choose_file("#audio", wav_file)
    make_video(page)
    shot("6-own-portrait")
    assert "360 × 640" in text(page, "#facts")
    page.click("#remove-presenter")
    page.wait("document.activeElement.id === 'remove-keep'")
    assert text(page, "#remove-question span") == "Remove Anna Example for everybody?"
    shot("7-asked-twice")
    page.press("Enter")
    page.wait("document.activeElement.id === 'remove-presenter'")
    assert not shown(page, "#remove-question") and len(service.host.store.list()) == 2, "nothing happened yet"
    page.click("#remove-presenter")
    page.click(".tile:not(:has(:checked)) img")
    page.wait("!document.querySelector('#remove-question').checkVisibility()")
    page.click(".tile[title='Anna Example']")
    page.click("#remove-presenter")
    page.click("#remove-sure")
    page.wait("document.querySelectorAll('.tile input[type=radio]').length === 1")
    assert [one.name for one in service.host.store.list()] == ["Default presenter"]


def test_strangers_that_jobs_brought_along_are_not_shown(page: Page, service: Served, url: str) -> None:
    stranger = service.host.store.put(small_avatar(""), temporary=True).avatar_id
    try:
        page.open(url)
        page.wait("document.querySelectorAll('.tile input[type=radio]').length > 0")
        assert page.evaluate("[...document.querySelectorAll('.tile input[type=radio]')].map(e => e.value)") == [
            service.host.default.avatar_id
        ]
    finally:
        service.host.store.delete(stranger)


def test_errors_are_told_where_they_belong(page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    no_picture = tmp_path / "face.jpg"
    no_picture.write_text("I am a picture, honestly")
    page.choose_file("#portrait", no_picture)
    page.wait("document.querySelector('#presenter-error').checkVisibility()")
    found = text(page, "#presenter-error")
    assert found.startswith("The picture cannot be read.") and "Accepted: JPEG, PNG, WebP, HEIC or AVIF" in found
    no_speech = tmp_path / "speech.wav"
    no_speech.write_text("<script>alert(1)</script>")
    page.choose_file("#audio", no_speech)
    page.click("#make")
    page.wait("document.querySelector('#speech-error').checkVisibility()")
    assert text(page, "#speech-error").startswith("The speech cannot be read.")
    assert not page.evaluate("document.querySelector('#make').disabled") and not shown(page, "#progress-box")
    shot("7-errors")
    page.click("#remove-speech")
    assert not shown(page, "#speech-error")
    page.events.clear()  # the browser reports the 422s


def test_a_busy_service_and_one_that_is_gone(page: Page, service: Served, wav_file: Path) -> None:
    page.choose_file("#audio", wav_file)
    gate = service.api.state.services.gate
    wait_for(lambda: gate.active == 0)
    gate.active = 10**6
    try:
        page.click("#make")
        page.wait("document.querySelector('#video-error').checkVisibility()")
    finally:
        gate.active = 0
    assert "Try again in 5 seconds." in text(page, "#video-error")
    page.click("#video-error button")
    page.wait("document.querySelector('#done').checkVisibility()")
    page.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.click("#make")
    page.wait("document.querySelector('#video-error').checkVisibility()")
    assert text(page, "#video-error").startswith("The service cannot be reached.")
    page.send("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.events.clear()


def test_cancel_stops_the_work(page: Page, service: Served, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(speech(12.0))
    page.choose_file("#audio", path)
    before = service.host.ended["cancelled"]
    with held(service, after=4):
        page.click("#make")
        page.wait("document.querySelector('#cancel').checkVisibility()")
        wait_for(lambda: service.host.jobs)
        page.click("#cancel")
        wait_for(lambda: service.host.ended["cancelled"] == before + 1)
    page.wait("document.querySelector('#make').checkVisibility() && !document.querySelector('#make').disabled")
    assert not shown(page, "#video-error") and page.evaluate("document.activeElement.id") == "make"


def test_everything_by_keyboard(page: Page, wav_file: Path, portrait_file: Path, service: Served) -> None:
    page.choose_file("#portrait", portrait_file)
    page.wait("document.querySelectorAll('.tile input[type=radio]').length === 2")
    page.choose_file("#audio", wav_file)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.querySelector('.skip').focus()")
    reached = []
    for _ in range(20):
        page.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.name || document.activeElement.className"
            )
        )
        if reached[-1] == "presenter":
            page.press("ArrowLeft")
            assert text(page, "#presenter-status").startswith("Default presenter")
        if reached[-1] == "make":
            break
    for needed in ("brand", "theme", "presenter", "portrait", "remove-speech", "make"):
        assert needed in reached, reached
    outline = page.evaluate("(s => s.outlineStyle + s.outlineWidth)(getComputedStyle(document.activeElement))")
    assert outline == "solid3px"
    page.press("Enter")
    page.wait("document.querySelector('#cancel').checkVisibility() && document.activeElement.id === 'cancel'")
    page.wait("document.querySelector('#done').checkVisibility()")
    for summary in service.host.store.list():
        if summary.avatar_id != service.host.default.avatar_id:
            service.host.store.delete(summary.avatar_id)


def test_names_and_roles(page: Page) -> None:
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, input, textarea, select, summary, video, audio, progress')]"
        ".filter(e => e.checkVisibility() && !(e.labels?.length || e.innerText?.trim() || e.getAttribute('aria-label') || e.title))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    assert page.evaluate("document.querySelectorAll('[role=alert]').length") == 3
    assert page.evaluate("document.querySelectorAll('[role=status]').length") == 2
    doubled = page.evaluate(
        "(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"
    )
    assert doubled == 0


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(page: Page, dark: bool) -> None:
    """Text against its ground: at least 4.5 to 1."""
    page.view(*DESKTOP, dark=dark)
    found = page.evaluate((Path(__file__).parent / "contrast.js").read_text(encoding="utf-8"))
    assert found == []


def test_phone_width(page: Page, wav_file: Path, shot: Callable[[str], None]) -> None:
    page.view(*PHONE, phone=True)
    page.wait("innerWidth === 390")
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "nothing sticks out sideways"
    shot("8-phone-start")
    page.choose_file("#audio", wav_file)
    small = page.evaluate(
        "[...document.querySelectorAll('button, .drop, .tile, summary')].filter(e => e.checkVisibility())"
        ".map(e => [e.id || e.className, Math.round(e.getBoundingClientRect().height)]).filter(([, h]) => h < 24)"
    )
    assert small == []
    make_video(page)
    page.wait("document.querySelector('#video').readyState >= 2")
    page.evaluate("document.querySelector('#stage').scrollIntoView({behavior: 'instant'})")
    shot("9-phone-done")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.view(320, 640, phone=True)
    page.wait("innerWidth === 320")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_dark_and_the_switch(page: Page, shot: Callable[[str], None]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.view(*DESKTOP, dark=True)
    dark = page.evaluate(ground)
    assert light != dark
    shot("10-dark")
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.evaluate("localStorage.clear()")


def test_the_api_page(page: Page, url: str, shot: Callable[[str], None]) -> None:
    page.open(url + "docs")
    page.wait("document.querySelectorAll('details.card').length > 10")
    page.evaluate("document.querySelector('details.card').open = true")
    shot("11-docs")
    body = text(page, "#doc")
    for route in ("/generate", "/api/generate", "/results/{result_id}", "/avatars", "/metrics"):
        assert route in body
    assert "`" not in body
    assert page.evaluate("[...document.querySelectorAll('#errors td code')].some(e => e.innerText === 'type')")
    assert f"curl --fail-with-body -sS {url}generate -F 'audio=@speech.wav' -o talking.mp4" in body
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    examples = page.evaluate("[...document.querySelectorAll('details.card > pre')].map(e => e.innerText)")
    for example in (
        f"curl --fail-with-body -sS -X POST {url}stream/webrtc/SESSION_ID/interrupt",
        f"curl --fail-with-body -sS {url}stream/webrtc/SESSION_ID/speak -F 'audio=@speech.wav'",
        f"curl --fail-with-body -sS {url}stream/whep/SESSION_ID -H 'Content-Type: application/sdp' --data-binary @offer.sdp",
        f"curl --fail-with-body -sS -X DELETE {url}avatars/AVATAR_ID",
        f"curl --fail-with-body -sS {url}results/RESULT_ID -o result.mp4",
        f"{url.replace('http', 'ws')}stream/webrtc/SESSION_ID/audio?sample_rate=16000&channels=1",
    ):
        assert example in examples
    kinds = text(page, "#kinds")
    assert "portrait_two_faces" in kinds and "Crop the picture to one person." in kinds
    page.view(*PHONE, phone=True)
    page.wait("innerWidth === 390")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_links_of_the_api_page_open_what_they_name(page: Page, url: str) -> None:
    page.open(url + "docs#/stream/webrtc/{session_id}/audio")
    page.wait("document.querySelectorAll('details.card[open]').length === 1")
    assert "sample_rate" in text(page, "details.card[open]") and "4404" in text(page, "details.card[open]")
    dangling = page.evaluate(
        "[...document.querySelectorAll('#doc a[href^=\"#\"]')].map(e => decodeURIComponent(e.hash.slice(1)))"
        ".filter(id => !document.getElementById(id))"
    )
    assert dangling == [] and page.evaluate("document.querySelectorAll('#doc a[href^=\"#\"]').length") > 8
    page.evaluate("location.hash = '#kinds'")
    page.wait("document.querySelector('#kinds').open")


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_of_the_api_page(page: Page, url: str, dark: bool) -> None:
    page.view(*DESKTOP, dark=dark)
    page.open(url + "docs")
    page.wait("document.querySelectorAll('details.card').length > 10")
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert page.evaluate((Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")) == []
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.click("#theme")
    assert page.evaluate(ground) != before
    page.evaluate("localStorage.clear()")


def test_an_error_is_brought_into_view_and_has_the_focus(page: Page, tmp_path: Path) -> None:
    page.view(*PHONE, phone=True)
    path = tmp_path / "noise.wav"
    path.write_bytes(b"this is no sound")
    page.choose_file("#audio", path)
    page.click("#make")
    page.wait("document.querySelector('#speech-error').checkVisibility()")
    page.wait("document.activeElement.id === 'speech-error'")
    assert in_view(page, "#speech-error")
    page.events.clear()
    page.view(*DESKTOP)


def test_a_field_that_is_refused_is_named(page: Page, wav_file: Path) -> None:
    page.choose_file("#audio", wav_file)
    page.evaluate("document.querySelector('#seed').value = '-5'")
    page.click("#make")
    page.wait("document.querySelector('#video-error').checkVisibility()")
    assert "The seed: got -5. Accepted: a whole number, 0 to" in text(page, "#video-error")
    page.wait("document.activeElement.id === 'video-error'")
    page.events.clear()


def in_view(page: Page, selector: str) -> bool:
    """Whether all of an element comes into the window."""
    box = f"document.querySelector({selector!r}).getBoundingClientRect()"
    return bool(page.wait(f"{box}.top >= 0 && {box}.bottom <= innerHeight"))
