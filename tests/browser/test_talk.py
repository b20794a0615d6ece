"""The page of conversations in a real browser: its fake microphone says a sentence again and again, the presenter echoes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.mini.registration import make_avatar
from pipeline.talk.brain import Heard, Words
from pipeline.talk.errors import AgentUnreachableError
from tests.browser.cdp import Page
from tests.browser.test_page import DESKTOP, PHONE, SHOTS_ENV, in_view, shown, text
from tests.support.faces import presenter
from tests.support.http_server import Served, wait_for
from tests.unit.pipeline.talk.test_conversation import ScriptedBrain

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
LOW = (
    "(() => { const box = document.querySelector('SELECTOR').getBoundingClientRect();"
    " return box.top > innerHeight / 2 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; })()"
)
ABOVE_CONTROLS = (
    "(() => { const [screen, words, controls] = ['#screen', '#words-card', '.controls']"
    ".map(name => document.querySelector(name).getBoundingClientRect());"
    " return screen.top >= 0 && screen.bottom <= words.top && words.bottom <= controls.top; })()"
)
SAID = "window.said.includes('{}')"
WATCH_STATE = (
    "(() => { const at = document.querySelector('#state'); window.said = [];"
    " new MutationObserver(() => window.said.push(at.textContent)).observe(at, { childList: true }); })()"
)


def shot(page: Page, name: str) -> None:
    if folder := os.environ.get(SHOTS_ENV):
        page.picture(Path(folder) / f"talk-{name}.png")


@pytest.fixture
def page(browser: Page, service: Served, url: str) -> Iterator[Page]:
    """The page on a phone, with a small presenter, which leaves a busy machine time for the conversation."""
    drawn = presenter()
    avatar_id = service.host.store.put(make_avatar(drawn.rgb, drawn.landmarks, "Small")).avatar_id
    wait_for(lambda: service.host.live.sessions.headroom.active == 0)  # the session of the test before
    brain = service.host.live.sessions._brain
    browser.view(*PHONE, phone=True)
    browser.open(f"{url}talk")
    browser.wait(f"document.querySelector('input[value=\"{avatar_id}\"]') !== null")
    browser.wait("[...document.images].every(i => i.complete)")
    browser.click(f'.tile:has([value="{avatar_id}"])')
    browser.evaluate(WATCH_STATE)
    browser.events.clear()
    yield browser
    assert not browser.problems()
    service.host.live.sessions._brain = brain
    browser.view(*DESKTOP)
    browser.open("about:blank")
    browser.wait("true")
    service.host.store.delete(avatar_id)


def end(page: Page) -> None:
    page.click("#end")
    page.wait("document.querySelector('#start').checkVisibility()")


@pytest.mark.timeout(600)
def test_a_conversation_on_a_phone(page: Page, service: Served) -> None:
    script = [[Heard("What is new?"), Words("Good evening. Here is a long answer. " * 40)] for _ in range(200)]
    service.host.live.sessions._brain = ScriptedBrain(list(script))
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0], "nothing sticks out sideways"
    assert page.evaluate(LOW.replace("SELECTOR", "#start")), "it is where the thumb is"
    for dark in (False, True):
        page.view(*PHONE, phone=True, dark=dark)
        assert page.evaluate(CONTRAST) == []
        shot(page, f"1-before-{'dark' if dark else 'light'}")
    page.click("#start")
    page.wait("!document.querySelector('#picture').hidden && document.querySelector('#picture').readyState >= 2")
    page.wait(SAID.format("You speak…"))
    assert page.evaluate(ABOVE_CONTROLS), "the face came into view, though the presenter was chosen below it"
    page.click("#mute")  # the fake microphone would interrupt every answer
    assert page.evaluate("document.querySelector('#mute').getAttribute('aria-pressed')") == "true"
    for words in ("Thinking…", "Speaking: speak to interrupt"):
        page.wait(SAID.format(words))
    page.wait("document.querySelectorAll('#words .mine').length >= 1")
    session = next(iter(service.host.live.sessions._entries.values())).session
    assert session.epoch == 0
    page.click("#mute")
    wait_for(lambda: session.epoch >= 1)  # the microphone's next words interrupted the answer
    page.wait("window.said.lastIndexOf('You speak…') > window.said.indexOf('Speaking: speak to interrupt')")
    page.wait("document.querySelectorAll('#words li:not(.mine):not(.unheard)').length >= 1")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert page.evaluate(LOW.replace("SELECTOR", "#end")) and not shown(page, "#presenter-card")
    page.evaluate(
        "document.querySelector('#screen').scrollIntoView({behavior: 'instant'})"
    )  # a click scrolls here, a thumb does not
    assert page.evaluate(ABOVE_CONTROLS), "the face, what is said and the controls, none over another"
    for dark in (False, True):
        page.view(*PHONE, phone=True, dark=dark)
        assert page.evaluate(CONTRAST) == []
        shot(page, f"2-talking-{'dark' if dark else 'light'}")
    page.view(*DESKTOP)
    shot(page, "3-desktop")
    end(page)
    wait_for(lambda: not service.host.live.sessions.ids)


@pytest.mark.timeout(600)
def test_what_goes_wrong_is_said_where_the_thumb_is(page: Page, service: Served) -> None:
    unreachable = AgentUnreachableError("answered 503")
    service.host.live.sessions._brain = ScriptedBrain([[Heard("x"), unreachable] for _ in range(200)])
    service.host.live.sessions.headroom.admit("somebody else")
    try:
        page.click("#start")
        page.wait("document.activeElement.id === 'talk-error'")
        assert in_view(page, "#talk-error") and "no room" in text(page, "#talk-error")
        assert page.evaluate(LOW.replace("SELECTOR", "#talk-error button"))
        shot(page, "4-full")
    finally:
        service.host.live.sessions.headroom.release("somebody else")
    page.events.clear()  # the browser reports the 503 as an error of the network
    page.click("#talk-error button")
    page.wait("document.querySelector('#talk-error').innerText.includes('The agent does not answer')")
    assert page.evaluate(LOW.replace("SELECTOR", "#talk-error")) and page.evaluate(
        "document.querySelector('#screen').getBoundingClientRect().top >= 0"
    )
    shot(page, "5-no-answer")
    end(page)
    wait_for(lambda: not service.host.live.sessions.ids)
