"""The live page as a person uses it, in a real browser against the real application: media goes over the machine's own network."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from websockets.exceptions import ConnectionClosed

from benchmarks.quality.aperture import ApertureMeter
from engines.face.mesh import FaceTracker
from pipeline.live.contracts import EndReason
from pipeline.mini.registration import make_avatar
from tests.browser.cdp import Page
from tests.browser.conftest import speech
from tests.browser.test_page import DESKTOP, PHONE, SHOTS_ENV, in_view, shown, text
from tests.support.faces import face_mesh, presenter
from tests.support.http_server import Served, wait_for

NARROW_PHONE = (360, 740)
WATCH = (Path(__file__).parent / "watch.js").read_text(encoding="utf-8")
PLAYING = "!document.querySelector('#picture').hidden && document.querySelector('#picture').readyState >= 2"


@pytest.fixture
def page(browser: Page, service: Served, url: str) -> Iterator[Page]:
    browser.view(*DESKTOP)
    browser.open(f"{url}live")
    browser.wait("document.querySelectorAll('.tile').length >= 2 && !document.querySelector('#poster').hidden")
    browser.wait("[...document.images].every(i => i.complete)")
    wait_for(lambda: service.host.live.sessions.headroom.active == 0)  # the session of the test before
    browser.events.clear()
    yield browser
    assert not browser.problems()
    browser.open("about:blank")
    browser.wait("true")


@pytest.fixture
def shot(page: Page) -> Callable[[str], None]:
    folder = os.environ.get(SHOTS_ENV)
    return lambda name: page.picture(Path(folder) / f"live-{name}.png") if folder else None


def start(page: Page, drive: str = "mic") -> None:
    page.click(f"input[value={drive}]")
    page.click("#start")
    page.wait(PLAYING)


def end(page: Page) -> None:
    page.click("#end")
    page.wait("document.querySelector('#start').checkVisibility()")
    assert not shown(page, "#picture") and shown(page, "#poster")


def only_session(service: Served) -> str:
    sessions = service.host.live.sessions
    wait_for(lambda: len(sessions.ids) == 1)
    return sessions.ids[0]


def fall_silent(service: Served, session_id: str, ends: EndReason | None = None) -> None:
    """The service sends nothing more to this session's client, not even good-bye; with `ends` the session ends at that moment."""
    entry = service.host.live.sessions._entries[session_id]

    def abort() -> None:
        for transceiver in entry.peer._pc.getTransceivers():
            for protocol in transceiver.receiver.transport.transport._connection._protocols:
                protocol.transport.abort()
        if ends is not None:
            entry.session.end(ends)

    entry.hub._loop.call_soon_threadsafe(abort)


def rtp_times(page: Page, count: int) -> list[int]:
    """RTP timestamps of the next pictures that are shown."""
    found: list[int] = page.evaluate(
        "new Promise((done) => { const seen = []; const picture = document.querySelector('#picture');"
        " const next = (now, { rtpTimestamp }) => { seen.push(rtpTimestamp);"
        f"  if (seen.length < {count}) picture.requestVideoFrameCallback(next); else done(seen); }};"
        " picture.requestVideoFrameCallback(next); })"
    )
    return found


def follows(page: Page, meter: ApertureMeter) -> tuple[float, float]:
    """Seven seconds: correlation of loudness and aperture; how far open the mouth is in loud against in quiet moments.

    On a busy machine the sound may be up to 0.4 s ahead of the pictures; that they belong together is for other tests.
    """
    rows: list[Any] = page.evaluate(WATCH.replace("MILLISECONDS", "7000"))
    pictures = [np.asarray(Image.open(io.BytesIO(base64.b64decode(jpeg))).convert("RGB")) for _, jpeg in rows]
    aperture = meter.measure(pictures).values
    seen = np.isfinite(aperture)
    assert seen.sum() > 0.95 * len(rows)
    level, aperture = np.asarray([rms for rms, _ in rows])[seen], aperture[seen]
    smooth = np.convolve(level, np.ones(3) / 3, "same")
    quiet = smooth < 0.05 * smooth.max()
    if max(level) <= 0.02 or not quiet.any() or quiet.all():
        return 0.0, 0.0
    alike = [np.corrcoef(smooth[: len(smooth) - behind], aperture[behind:])[0, 1] for behind in range(6)]
    return float(max(alike)), float(np.percentile(aperture[~quiet], 80) / max(np.median(aperture[quiet]), 0.01))


@pytest.fixture
def small_presenter(page: Page, service: Served, url: str) -> Iterator[None]:
    """A quarter of the picture costs both ends less, and leaves a busy machine time for the face; it is chosen in the page."""
    drawn = presenter()
    avatar_id = service.host.store.put(make_avatar(drawn.rgb, drawn.landmarks, "Small")).avatar_id
    page.open(f"{url}live")
    page.wait(f"document.querySelector('input[value=\"{avatar_id}\"]') !== null")
    page.wait("[...document.images].every(i => i.complete)")
    page.click(f'.tile:has([value="{avatar_id}"])')
    yield
    service.host.store.delete(avatar_id)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("small_presenter")
def test_the_face_follows_the_microphone(page: Page, service: Served, shot: Callable[[str], None]) -> None:
    """Late pictures are left out where the machine has no time for them, so a busy one may need several windows."""
    meter = ApertureMeter(FaceTracker(face_mesh()))
    start(page)
    page.wait("document.querySelector('#picture').videoWidth === 360")
    page.wait("document.querySelector('#state').textContent === 'Speaking'")
    shot("1-speaking")
    found = []
    for _ in range(10):
        found.append(follows(page, meter))
        if found[-1][0] > 0.35 and found[-1][1] > 3.0:
            break
    else:
        raise AssertionError(f"the mouth does not follow the voice: {found}")
    end(page)
    wait_for(lambda: service.host.live.sessions.ended["deleted"] >= 1)


def test_pictures_flow_and_statistics_show(page: Page, shot: Callable[[str], None]) -> None:
    start(page)
    page.click("#stats")
    page.wait("document.querySelectorAll('#numbers dd').length >= 8")
    steps: list[int] = []
    for _ in range(20):  # a browser without time shows one picture in two or three
        steps += np.diff(np.asarray(rtp_times(page, 50), np.uint32)).tolist()
        assert all(step > 0 and step % 3600 == 0 for step in steps), "pictures of 1/25 s on a clock of 90 kHz"
        if 3600 in steps:
            break
    else:
        raise AssertionError(f"no two pictures in a row were shown: {steps}")
    page.wait("[...document.querySelectorAll('#numbers dt')].some(e => e.textContent === 'Frames shown')")
    shot("2-statistics")
    assert page.evaluate(
        "(() => { const c = document.querySelector('#plot');"
        " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0); })()"
    )
    end(page)


def test_the_face_takes_on_the_expression_that_is_chosen(
    page: Page, service: Served, shot: Callable[[str], None]
) -> None:
    start(page, "push")
    session = service.host.live.sessions._entries[only_session(service)].session
    page.evaluate(
        "(e => { e.value = 'happy'; e.dispatchEvent(new Event('change')); })(document.querySelector('#expression'))"
    )
    wait_for(lambda: bool(session._performer._expressed.looks))
    assert session._performer._expressed.looks.looks[-1].expression == "happy"
    drawn = session.stats().stage_calls.get("renderer", 0)
    wait_for(lambda: session.stats().stage_calls.get("renderer", 0) > drawn + 3)
    rtp_times(page, 30)
    page.view(*NARROW_PHONE, phone=True)
    page.evaluate("document.querySelector('#strength').scrollIntoView({block: 'end', behavior: 'instant'})")
    assert page.evaluate("document.documentElement.scrollWidth") == 360 and shown(page, "#strength")
    shot("8-expression")
    page.view(*DESKTOP)
    end(page)


def test_a_file_is_spoken_and_interrupted(page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    path = tmp_path / "long answer.wav"
    path.write_bytes(speech(30.0))  # longer than it takes a busy machine to interrupt it
    page.click("input[value=push]")
    assert shown(page, "#push-box") and page.evaluate("document.querySelector('#audio').disabled")
    start(page, "push")
    page.wait("!document.querySelector('#audio').disabled")
    page.choose_file("#audio", path)
    page.wait("document.querySelector('#state').textContent === 'Speaking'")
    page.wait("document.querySelector('#queue-text').textContent.startsWith('long answer.wav: 0:30')")
    shot("3-pushed")
    page.click("#interrupt")
    page.wait("document.querySelector('#queue-text').textContent.startsWith('Interrupted after 0:')")
    page.wait("document.querySelector('#state').textContent === 'Listening'")
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"this is no sound")
    page.choose_file("#audio", bad)
    page.wait("document.querySelector('#speech-error').checkVisibility()")
    assert "cannot be read" in text(page, "#speech-error")
    page.events.clear()  # the browser reports every 4xx as an error of the network
    end(page)


def test_a_full_service_says_when_to_come_back(page: Page, service: Served, shot: Callable[[str], None]) -> None:
    service.host.live.sessions.headroom.admit("somebody else")
    try:
        page.click("#start")
        page.wait("document.querySelector('#live-error').checkVisibility()")
        assert "no room" in text(page, "#live-error") and "Try again in 5 seconds" in text(page, "#live-error")
        assert "perhaps by another tab" in text(page, "#live-error")
        shot("4-full")
    finally:
        service.host.live.sessions.headroom.release("somebody else")
    page.events.clear()
    page.click("#live-error button")
    page.wait(PLAYING)
    assert not shown(page, "#live-error")
    end(page)


@pytest.mark.parametrize("dark", [False, True])
def test_an_error_is_in_view_and_focused_on_a_phone(
    page: Page, service: Served, shot: Callable[[str], None], dark: bool
) -> None:
    page.view(*PHONE, phone=True, dark=dark)
    page.wait("innerWidth === 390")
    service.host.live.sessions.headroom.admit("somebody else")
    try:
        page.click("#start")
        page.wait("document.activeElement.id === 'live-error'")
        assert in_view(page, "#live-error")
        shot(f"8-phone-error-{'dark' if dark else 'light'}")
    finally:
        service.host.live.sessions.headroom.release("somebody else")
    page.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Try again"
    page.events.clear()


def test_a_service_that_is_gone_is_told_before_the_browser_notices_and_tried_again(page: Page, service: Served) -> None:
    page.evaluate(
        "(() => { const Real = RTCPeerConnection; window.peers = [];"
        " window.RTCPeerConnection = function (...given) { const one = new Real(...given); window.peers.push(one); return one; };"
        " const real = window.fetch; window.away = false; window.tries = 0;"
        " window.fetch = (path, options) => { if (!window.away) return real(path, options);"
        "  window.tries += String(path).endsWith('/ice-servers'); return Promise.reject(new TypeError('nobody answers')); };"
        " const at = document.querySelector('#state'); window.said = [];"
        " new MutationObserver(() => window.said.push([at.textContent, window.peers.at(-1)?.connectionState]))"
        "  .observe(at, { childList: true }); })()"
    )
    start(page)
    page.wait("['Listening', 'Speaking'].includes(document.querySelector('#state').textContent)")
    lost = only_session(service)
    page.evaluate("window.away = true")
    fall_silent(service, lost)
    page.wait("window.said.some(([words]) => words.startsWith('Nothing comes from the service'))")
    told = page.evaluate("window.said.find(([words]) => words.startsWith('Nothing comes'))")
    assert told[1] == "connected", "the browser itself still believes in the connection"
    page.wait("window.tries >= 2")
    assert "Connecting" in text(page, "#state")
    page.evaluate("window.away = false")
    page.wait(PLAYING)
    wait_for(lambda: len(service.host.live.sessions.ids) == 1 and service.host.live.sessions.ids != [lost])
    end(page)
    page.events = [event for event in page.events if lost not in str(event) and "503" not in str(event)]


def test_a_pause_of_the_network_is_told_and_passes(page: Page) -> None:
    start(page)
    page.wait("['Listening', 'Speaking'].includes(document.querySelector('#state').textContent)")
    page.evaluate(
        "(() => { const real = RTCPeerConnection.prototype.getStats; let last = null; window.paused = true;"
        " RTCPeerConnection.prototype.getStats = async function () {"
        "  last = window.paused && last ? last : await real.call(this); return last; }; })()"
    )
    page.wait("document.querySelector('#state').textContent.startsWith('Nothing comes from the service')")
    page.evaluate("window.paused = false")
    page.wait("['Listening', 'Speaking'].includes(document.querySelector('#state').textContent)")
    assert shown(page, "#picture")
    end(page)


def test_an_interrupt_shows_how_far_the_one_that_was_heard_came(page: Page, tmp_path: Path) -> None:
    page.click("input[value=push]")
    start(page, "push")
    page.wait("!document.querySelector('#audio').disabled")
    for name in ("first.wav", "second.wav", "third.wav"):
        path = tmp_path / name
        path.write_bytes(speech(30.0))
        page.choose_file("#audio", path)
        page.wait(f"document.querySelector('#queue-text').textContent.startsWith('{name}: 0:30')")
    page.wait("document.querySelector('#state').textContent === 'Speaking'")
    rtp_times(page, 60)
    page.click("#interrupt")
    page.wait("document.querySelector('#state').textContent === 'Listening'")
    page.wait("document.querySelector('#queue-text').textContent.startsWith('Interrupted after 0:')")
    assert text(page, "#queue-text") != "Interrupted after 0:00."
    end(page)


def test_a_refused_or_missing_microphone_is_told_in_words(page: Page, shot: Callable[[str], None]) -> None:
    for name, words in (
        ("NotAllowedError", "did not allow the microphone"),
        ("NotReadableError", "Another program may be using it"),
        ("NotFoundError", "No microphone was found"),
    ):
        page.evaluate(
            "navigator.mediaDevices.getUserMedia = () => Promise.reject("
            f"Object.assign(new Error('no'), {{name: '{name}'}}))"
        )
        page.click("#start")
        page.wait(f"document.querySelector('#live-error').textContent.includes({words!r})")
        assert shown(page, "#live-error") and "camera" in text(page, "#live-error")
    shot("5-refused")
    assert shown(page, "#start")


def test_a_network_that_lets_nothing_through_is_told_in_words(page: Page) -> None:
    page.evaluate(
        "(() => { const real = RTCPeerConnection.prototype.setRemoteDescription;"
        " RTCPeerConnection.prototype.setRemoteDescription = function (answer) {"
        "  const sdp = answer.sdp.replace(/a=candidate:.*\\r\\n/g, 'a=candidate:1 1 udp 2130706431 192.0.2.1 9 typ host\\r\\n');"
        "  return real.call(this, { type: answer.type, sdp }); };"
        " const add = RTCPeerConnection.prototype.createDataChannel;"
        " Object.defineProperty(RTCPeerConnection.prototype, 'localDescription', { get() {"
        "  const { type, sdp } = this.currentLocalDescription ?? this.pendingLocalDescription;"
        "  return { type, sdp: sdp.replace(/a=candidate:.*\\r\\n/g, '') }; } });"
        " const timer = window.setTimeout; window.setTimeout = (what, ms, ...given) => timer(what, ms / 5, ...given);"
        " const fetched = window.fetch;"
        " window.fetch = (path, options) => options?.method === 'PATCH' ? Promise.resolve(new Response()) : fetched(path, options);"
        "})()"
    )
    page.click("#start")
    page.wait("document.querySelector('#live-error').checkVisibility()")
    assert "No connection came about" in text(page, "#live-error") and "TURN" in text(page, "#live-error")


@pytest.mark.parametrize(
    ("how", "reasons"),
    [("its tab is closed", {"deleted", "peer_closed"}), ("it is killed", {"peer_lost"})],
)
def test_a_browser_that_goes_away_frees_its_place(
    new_browser: Callable[[], AbstractContextManager[Page]],
    service: Served,
    url: str,
    how: str,
    reasons: set[str],
) -> None:
    """One that is killed is given up after five failed consent checks, one a second; the benchmark times it (`dead_peer_s`)."""
    sessions = service.host.live.sessions
    wait_for(lambda: not sessions.ids)
    before = dict(sessions.ended)
    with suppress(ConnectionClosed), new_browser() as page:
        page.view(*DESKTOP)
        page.open(f"{url}live")
        page.wait("document.querySelectorAll('.tile').length >= 2")
        start(page)
        wait_for(lambda: len(sessions.ids) == 1)
        if how == "it is killed":
            page.vanish()
        else:
            with suppress(ConnectionClosed):
                page.send("Page.close")
        wait_for(lambda: not sessions.ids)
    assert {name for name, count in sessions.ended.items() if count > before.get(name, 0)} <= reasons


def test_a_connection_that_is_lost_is_made_again(page: Page, service: Served) -> None:
    """What a client sees when the process that holds its session dies: not a packet more, and no such session."""
    start(page)
    sessions, lost = service.host.live.sessions, only_session(service)
    page.evaluate(
        "(() => { const at = document.querySelector('#state'); window.said = [];"
        " new MutationObserver(() => window.said.push(at.textContent)).observe(at, { childList: true }); })()"
    )
    fall_silent(service, lost)
    page.wait("window.said.some((words) => words.includes('Connecting again'))")
    page.wait(f"{PLAYING} && document.querySelector('#state').textContent !== 'Connecting…'")
    wait_for(lambda: len(sessions.ids) == 1 and sessions.ids != [lost])
    assert not shown(page, "#live-error")
    end(page)
    told = [event for event in page.events if lost in str(event)]  # the browser reports the 410 that told it
    page.events = [event for event in page.events if event not in told]
    assert not any(event.get("params", {}).get("request", {}).get("method") == "DELETE" for event in told)


def test_an_end_that_the_network_kept_back_is_told_in_words(page: Page, service: Served) -> None:
    start(page)
    sessions, ended = service.host.live.sessions, only_session(service)
    fall_silent(service, ended, EndReason.MAX_DURATION)
    page.wait("document.querySelector('#state').textContent === 'The session reached its longest duration.'")
    assert shown(page, "#start") and not shown(page, "#live-error")
    wait_for(lambda: not sessions.ids)
    page.events = [event for event in page.events if ended not in str(event)]


@pytest.mark.parametrize("reason", [EndReason.DELETED, EndReason.DRAINED, EndReason.FAILED])
def test_an_end_by_the_service_is_told_in_words(page: Page, service: Served, reason: EndReason) -> None:
    start(page)
    session = service.host.live.sessions._entries[only_session(service)]
    session.hub._loop.call_soon_threadsafe(session.session.end, reason)
    page.wait("document.querySelector('#start').checkVisibility()")
    words = page.evaluate(f"import('/static/words.js').then(({{ ENDS }}) => ENDS[{str(reason)!r}])")
    assert words == (text(page, "#live-error .more") if reason is EndReason.FAILED else text(page, "#state"))
    assert shown(page, "#live-error") is (reason is EndReason.FAILED)


def test_by_keyboard_on_a_phone(page: Page, shot: Callable[[str], None]) -> None:
    page.view(*NARROW_PHONE, phone=True, dark=True)
    page.wait("innerWidth === 360")
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "nothing sticks out sideways"
    page.evaluate("document.querySelector('input[value=mic]').focus()")
    for _ in range(12):
        page.press("Tab")
        if page.evaluate("document.activeElement.id") == "start":
            break
    assert page.evaluate("document.activeElement.id") == "start"
    page.press("Enter")
    page.wait(PLAYING)
    shot("6-phone")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert not shown(page, "#drive-fields") and not shown(page, "#presenters")
    top, bottom = page.evaluate(
        "(() => { const r = document.querySelector('#screen').getBoundingClientRect(); return [r.top, r.top + r.height / 2]; })()"
    )
    assert 0 <= top and bottom < page.evaluate("innerHeight"), "the face is in sight without scrolling"
    assert page.evaluate("document.activeElement.id") == "end"
    page.evaluate("document.querySelector('#stats').click()")
    page.wait("document.querySelectorAll('#numbers dd').length >= 8")
    page.evaluate("document.querySelector('#overlay').scrollIntoView({block: 'end', behavior: 'instant'})")
    shot("7-phone-statistics")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate(
        "[...document.querySelectorAll('#numbers div')].every(e => e.scrollWidth <= e.clientWidth)"
        " && document.querySelector('#overlay').scrollHeight <= document.querySelector('#screen').clientHeight"
    ), "the numbers have room"
    page.press("Enter")
    page.wait("document.querySelector('#start').checkVisibility()")
    assert page.evaluate("document.activeElement.id") == "start"
