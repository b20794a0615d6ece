"""The page of viewers and the element for pages of others, in a real browser, against a real session."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from pipeline.mini.registration import make_avatar
from tests.browser.cdp import Page
from tests.browser.test_page import DESKTOP, PHONE, SHOTS_ENV
from tests.support.faces import presenter
from tests.support.http_server import Served, wait_for
from tests.support.rtc import Client

VIEWER = "document.querySelector('live-anchor')"
SHADOW = f"{VIEWER}?.shadowRoot"
PLAYS = f"{VIEWER}?.state === 'live' && {VIEWER}.video.readyState >= 2 && {VIEWER}.video.videoWidth === 360"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
LOW_ON_THE_SCREEN = (
    f"(() => {{ const box = {SHADOW}.querySelector('WHAT').getBoundingClientRect();"
    " return box.top > innerHeight / 2 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth"
    " && box.height >= 40; })()"
)


@contextmanager
def session(service: Served) -> Iterator[str]:
    """Id of a session whose own client is in this process."""
    drawn = presenter()
    avatar_id = service.host.store.put(make_avatar(drawn.rgb, drawn.landmarks, "Small")).avatar_id
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> tuple[Client, str]:
        client = Client()
        body = {"sdp": await client.offer(), "drive": "push", "avatar_id": avatar_id}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}", timeout=60) as http:
            answer = (await http.post("/stream/webrtc/offer", json=body)).raise_for_status().json()
        await client.accept(answer["sdp"])
        return client, str(answer["session_id"])

    client, session_id = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield session_id
    finally:
        asyncio.run_coroutine_threadsafe(client.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        service.host.store.delete(avatar_id)
        wait_for(lambda: not service.host.live.sessions.ids)


def shot(page: Page, name: str) -> None:
    if folder := os.environ.get(SHOTS_ENV):
        page.picture(Path(folder) / f"watch-{name}.png")


def in_shadow(script: str) -> str:
    """The same script for what lies in the element."""
    return script.replace("document.querySelectorAll", f"{SHADOW}.querySelectorAll")


@pytest.fixture
def page(browser: Page, service: Served) -> Iterator[Page]:
    wait_for(lambda: service.host.live.sessions.headroom.active == 0)  # the session of the test before
    browser.view(*PHONE, phone=True)
    browser.events.clear()
    yield browser
    browser.view(*DESKTOP)
    browser.open("about:blank")


def test_a_session_is_watched_on_its_page_and_on_the_page_of_others(page: Page, service: Served, url: str) -> None:
    with session(service) as session_id:
        page.open(f"{url}watch/{session_id}")
        page.wait(PLAYS)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0], "nothing sticks out sideways"
        assert page.evaluate(f"{SHADOW}.querySelector('button').textContent") == "Sound off"
        assert page.evaluate(LOW_ON_THE_SCREEN.replace("WHAT", "button")), "sound is where the thumb is"
        page.evaluate(f"{SHADOW}.querySelector('button').click()")
        assert page.evaluate(f"{VIEWER}.video.muted")
        assert page.evaluate(f"{SHADOW}.querySelector('button').textContent") == "Switch the sound on"
        for dark in (False, True):
            page.view(*PHONE, phone=True, dark=dark)
            assert page.evaluate(in_shadow(CONTRAST)) == []
            shot(page, "dark" if dark else "light")
        ids = service.host.live.sessions
        assert len(ids._entries[session_id].viewers) == 1

        page.open(f"{url}docs")  # stands for a page of others; leaving the page before ended its viewer
        wait_for(lambda: len(ids._entries[session_id].viewers) == 0)
        page.evaluate(
            "import('/static/live-anchor.js').then(() => { const one = document.createElement('live-anchor');"
            f" one.setAttribute('src', '/stream/whep/{session_id}'); one.setAttribute('muted', '');"
            " one.style.cssText = 'position: fixed; inset: 0'; document.body.append(one); })"
        )
        page.wait(PLAYS)
        assert page.evaluate(f"{VIEWER}.video.muted")
        assert not page.problems()
        page.evaluate(f"{VIEWER}.remove()")
        wait_for(lambda: len(ids._entries[session_id].viewers) == 0)

        page.open(f"{url}watch/{session_id}")
        page.wait(PLAYS)
        httpx.delete(f"{url}stream/webrtc/{session_id}", timeout=60).raise_for_status()
        page.wait(f"{VIEWER}.state === 'over'")
        assert page.evaluate(f"{SHADOW}.querySelector('p').textContent") == "This broadcast is over."
        assert page.evaluate(LOW_ON_THE_SCREEN.replace("WHAT", "p"))
        assert page.evaluate(in_shadow(CONTRAST)) == []
        shot(page, "over")


def test_what_is_wrong_is_said_where_the_thumb_is(page: Page, url: str) -> None:
    page.send(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.asked = 0; const stock = window.fetch; window.fetch = (url, options) => {"
        " if (!String(url).includes('/stream/whep/')) return stock(url, options);"
        " window.asked += 1; return Promise.resolve(new Response('', { status: window.asked > 1 ? 406 : 503 })); };",
    )
    page.open(f"{url}watch/full")
    page.wait(f"{VIEWER}?.state === 'waiting'")
    assert "places for viewers are taken" in page.evaluate(f"{SHADOW}.querySelector('p').textContent")
    page.wait(f"{VIEWER}.state === 'failed'")
    assert page.evaluate("asked") == 2, "it tried again by itself, and then said why it cannot"
    assert page.evaluate(f"{SHADOW}.querySelector('p').getAttribute('role')") == "alert"
    assert page.evaluate(LOW_ON_THE_SCREEN.replace("WHAT", "p"))
    assert page.evaluate(in_shadow(CONTRAST)) == []
    shot(page, "failed")
    assert not page.problems()
