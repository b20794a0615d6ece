"""The page of a service that needs a statement of consent: it asks before a portrait goes there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import pytest

from tests.browser.cdp import Page
from tests.support.http_server import InProcessHost, Served, serving, small_avatar

ASKED = "document.querySelector('dialog[open] #consent') !== null"
GONE = "document.querySelector('dialog') === null"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, 101)
    with serving(tmp_path, host, needed=True) as one:
        yield one


def written(page: Page, text: str) -> None:
    page.evaluate(f"document.querySelector('#consent').value = {text!r}")
    page.evaluate("document.querySelector('#consent').dispatchEvent(new Event('input'))")  # as when it is typed


def test_a_portrait_goes_with_what_was_agreed_or_not_at_all(browser: Page, service: Served, tmp_path: Path) -> None:
    picture = tmp_path / "anna.png"
    cv2.imwrite(str(picture), small_avatar().canvas_rgb)
    browser.open(f"http://127.0.0.1:{service.port}/")
    browser.wait("document.querySelectorAll('.tile').length >= 2")
    browser.choose_file("#portrait", picture)
    browser.wait(ASKED)
    browser.click("dialog .link")
    browser.wait(GONE)
    assert service.host.registered == []
    browser.choose_file("#portrait", picture)
    browser.wait(ASKED)
    written(browser, "   ")
    browser.click("dialog .primary")
    assert browser.evaluate(ASKED) and service.host.registered == [], "blanks are no statement"
    written(browser, "Anna agreed.")
    browser.click("dialog .primary")
    browser.wait(f"{GONE} && document.querySelectorAll('.tile input[type=radio]').length === 2")
    avatar_id = browser.evaluate("document.querySelector('.tile :checked').value")
    kept = service.client.get(f"/avatars/{avatar_id}/consent").json()["consents"]
    assert [one["statement"] for one in kept] == ["Anna agreed."]
