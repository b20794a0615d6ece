"""Typed text on both pages, in a real browser: spoken into a file and into a live session, and errors where it was typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.voices.errors import VoiceFailedError, VoiceMissingError
from tests.browser.cdp import Page
from tests.browser.test_page import DESKTOP, PHONE, SHOTS_ENV, in_view, make_video, shown, text
from tests.support.fake_voice import FakeVoice
from tests.support.http_server import Served, wait_for

PLAYING = "!document.querySelector('#picture').hidden && document.querySelector('#picture').readyState >= 2"


@pytest.fixture
def voice(service: Served) -> Iterator[FakeVoice]:
    """The one voice of the service, as new."""
    voice = service.host.voice
    assert isinstance(voice, FakeVoice)
    vars(voice).update(vars(FakeVoice()))
    yield voice
    vars(voice).update(vars(FakeVoice()))


@pytest.fixture
def page(browser: Page, url: str) -> Iterator[Page]:
    browser.view(*DESKTOP)
    yield browser
    assert not browser.problems()
    browser.open("about:blank")


@pytest.fixture
def shot(page: Page) -> Callable[[str], None]:
    folder = os.environ.get(SHOTS_ENV)
    return lambda name: page.picture(Path(folder) / f"text-{name}.png") if folder else None


def opened(page: Page, address: str, phone: bool = False) -> None:
    if phone:
        page.view(*PHONE, phone=True)
    page.open(address)
    page.wait("document.querySelectorAll('.tile').length >= 2")
    page.wait("[...document.images].every(i => i.complete)")
    page.events.clear()


def typed(page: Page, words: str) -> None:
    page.evaluate("document.querySelector('#text').focus()")
    page.send("Input.insertText", text=words)


def test_a_text_becomes_a_video(page: Page, url: str, voice: FakeVoice, shot: Callable[[str], None]) -> None:
    opened(page, url)
    assert page.evaluate("document.querySelector('#make').disabled")
    typed(page, "Good evening. Here is the news.")
    page.wait("!document.querySelector('#make').disabled")
    shot("1-typed")
    make_video(page)
    assert voice.said == ["Good evening.", "Here is the news."] and "720 × 1280" in text(page, "#facts")
    assert page.evaluate("document.querySelector('#text').value") == "Good evening. Here is the news."


def test_a_file_goes_before_a_text_and_leaves_it(page: Page, url: str, voice: FakeVoice, tmp_path: Path) -> None:
    from tests.browser.conftest import speech

    opened(page, url)
    typed(page, "Not this.")
    file = tmp_path / "speech.wav"
    file.write_bytes(speech(0.5))
    page.choose_file("#audio", file)
    page.wait("document.querySelector('#speech').checkVisibility()")
    assert not shown(page, "#text")
    make_video(page)
    assert voice.said == []
    page.click("#remove-speech")
    assert shown(page, "#text") and page.evaluate("document.querySelector('#text').value") == "Not this."


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_an_error_stands_where_the_text_was_typed(
    page: Page, url: str, voice: FakeVoice, shot: Callable[[str], None], dark: bool
) -> None:
    opened(page, url, phone=True)
    page.view(*PHONE, phone=True, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "nothing sticks out sideways"
    typed(page, "Good evening.")
    voice.missing = VoiceMissingError("hibari-tts")
    page.click("#make")
    page.wait("document.activeElement.id === 'speech-error'")
    assert text(page, "#speech-error").startswith("The service has no voice for text.")
    assert in_view(page, "#speech-error") and in_view(page, "#text")
    shot(f"2-phone-error-{'dark' if dark else 'light'}")
    typed(page, "!")
    assert not shown(page, "#speech-error"), "a change takes the error away"
    page.evaluate("scrollTo(0, document.body.scrollHeight), document.querySelector('#make').click()")
    page.wait("document.activeElement.id === 'speech-error'")
    assert in_view(page, "#speech-error") and in_view(page, "#text"), (
        "where the error comes late, the video was in view"
    )
    page.events.clear()


def test_a_text_is_spoken_live_and_interrupted(
    page: Page, url: str, service: Served, voice: FakeVoice, shot: Callable[[str], None]
) -> None:
    opened(page, f"{url}live")
    wait_for(lambda: service.host.live.sessions.headroom.active == 0)
    page.click("input[value=push]")
    assert shown(page, "#text") and page.evaluate("document.querySelector('#text').disabled")
    page.click("#start")
    page.wait(PLAYING)
    page.wait("!document.querySelector('#text').disabled")
    typed(page, "Good evening.")
    page.press("Enter")
    page.wait("document.querySelector('#state').textContent === 'Speaking'")
    assert page.evaluate("document.querySelector('#text').value") == "" and voice.said == ["Good evening."]
    page.wait("document.querySelector('#queue-text').textContent.startsWith('Finished after 0:0')")
    typed(page, "This takes its time. " * 20)
    page.click("#say")
    page.wait("document.querySelector('#state').textContent === 'Speaking'")
    shot("3-live")
    page.click("#interrupt")
    page.wait("document.querySelector('#queue-text').textContent.startsWith('Interrupted after 0:')")
    assert len(voice.said) < 15, "what was not spoken yet is not made any more"
    voice.refused = {"bad": VoiceFailedError("x")}
    typed(page, "Something bad.")
    page.click("#say")
    page.wait("document.querySelector('#speech-error').checkVisibility()")
    assert text(page, "#speech-error").startswith("The text was not spoken.")
    voice.missing = VoiceMissingError("hibari-tts")
    typed(page, "Anything.")
    page.click("#say")
    page.wait("document.querySelector('#speech-error').innerText.startsWith('The service has no voice for text.')")
    assert page.evaluate("document.querySelector('#text').value") == "Anything.", "what was not taken in is not lost"
    page.view(*PHONE, phone=True)
    page.wait("innerWidth === 390")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    shot("4-live-phone")
    page.events.clear()
    page.click("#end")
    page.wait("document.querySelector('#start').checkVisibility()")
