"""The page of a service that needs keys: it asks once, keeps a token and not the key, and shows pictures with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.cdp import Page
from tests.support.keys import Keyed, keyed

TILES = "document.querySelectorAll('.tile').length >= 2"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Keyed]:
    with keyed(tmp_path) as one:
        yield one


def shown_key(page: Page, text: str) -> None:
    page.evaluate(f"document.querySelector('#key').value = {text!r}")
    page.click("dialog .primary")


def test_a_person_gives_the_key_once(browser: Page, service: Keyed) -> None:
    _, text = service.key("generate", "live", "admin")
    browser.open(f"http://127.0.0.1:{service.served.port}/")
    browser.wait("document.querySelector('dialog[open] #key') !== null")
    shown_key(browser, "la_key_wrong")
    browser.wait("document.querySelector('dialog .alert').checkVisibility()")
    shown_key(browser, text)
    browser.wait(f"document.querySelector('dialog') === null && {TILES}")
    browser.wait("document.querySelector('.tile img').naturalWidth > 0")
    assert browser.evaluate("document.querySelector('.tile img').src").startswith("blob:")
    kept = browser.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
    assert "la_tok_" in kept and text not in kept
    token = browser.evaluate("JSON.parse(sessionStorage.getItem('session')).token")
    assert service.showing(token).get("/metrics").status_code == 403, "the page asks for no more than it needs"
    browser.open(f"http://127.0.0.1:{service.served.port}/live")
    browser.wait(f"document.querySelector('dialog') === null && {TILES}")
    browser.evaluate("sessionStorage.clear()")
    browser.open("about:blank")
    browser.events.clear()
