"""A headless Chromium, driven over the Chrome DevTools Protocol: start, look, click, type, take pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

START_S = 120.0
NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "Escape": 27}


def find_chromium() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


STANDS = """
(async () => {
  const element = document.querySelector(%s);
  const box = () => { const r = element.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
  element.scrollIntoView({ block: 'center', behavior: 'instant' });
  const before = box();
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const [x, y] = box();
  const hit = document.elementFromPoint(x, y);
  const hits = element.contains(hit) || [...element.labels ?? []].some((label) => label.contains(hit));
  return x === before[0] && y === before[1] && hits ? [x, y] : null;
})()
"""
"""The middle of an element, or null while it moves or something else lies there."""


class Page:
    """One tab.

    Args:
        socket: Of the tab.
        browser_pid: The browser's process, which leads a group of its own.
    """

    def __init__(self, socket: ClientConnection, browser_pid: int) -> None:
        self._socket = socket
        self.browser_pid = browser_pid
        self._last = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")

    def vanish(self) -> None:
        """Kill the whole browser, as `kill -9` does: nobody says good-bye."""
        os.killpg(self.browser_pid, signal.SIGKILL)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command; events that come meanwhile are kept."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=200))
            if message.get("id") == self._last:
                assert "error" not in message, (method, message)
                found: dict[str, Any] = message["result"]
                return found
            self.events.append(message)

    def evaluate(self, expression: str) -> Any:
        """A JavaScript expression's value; promises are awaited."""
        found = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str, timeout_s: float = 120.0) -> Any:
        """Poll until the expression is true; gives its value. A busy machine may take its time."""
        deadline, pause = time.monotonic() + timeout_s, threading.Event()
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {expression}\n{self.problems()}"
            pause.wait(0.05)
        return value

    def open(self, url: str) -> None:
        """Go there and wait until it is loaded."""
        self.send("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def view(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        """Size of the window, and what the person prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def choose_file(self, selector: str, path: Path) -> None:
        """What a file dialog would do."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def click(self, selector: str) -> None:
        """A real click into the middle of an element, once it is in sight, stands still and nothing lies over it."""
        box = self.wait(STANDS % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """A real key press."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A screenshot."""
        path.parent.mkdir(parents=True, exist_ok=True)
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def problems(self) -> list[str]:
        """What the console and the security policy complained about."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", {}).get("description", params)))
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return found


@contextmanager
def chromium(path: str, microphone: Path) -> Iterator[Page]:
    """A browser with one tab; `microphone` (WAV, 48 kHz) is what it hears."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}",
                "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                f"--use-file-for-fake-audio-capture={microphone}", "--autoplay-policy=no-user-gesture-required",
                "--no-first-run", "--mute-audio", "--force-color-profile=srgb", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            port = _port(Path(profile) / "DevToolsActivePort", process)
            # no pings: a browser that has no processor for a while is not gone
            with connect(_tab(port, process), max_size=2**26, open_timeout=START_S, ping_interval=None) as socket:
                yield Page(socket, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline, pause = time.monotonic() + START_S, threading.Event()
    while True:
        assert process.poll() is None, "Chromium ended at once"
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        assert time.monotonic() < deadline, "Chromium did not start"
        pause.wait(0.05)


def _tab(port: int, process: subprocess.Popen[bytes]) -> str:
    """Address of the first tab, which may open a little after the port."""
    deadline, pause = time.monotonic() + START_S, threading.Event()
    while True:
        assert process.poll() is None, "Chromium ended at once"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=START_S) as answer:  # our own browser
            for one in json.load(answer):
                if one["type"] == "page":
                    return str(one["webSocketDebuggerUrl"])
        assert time.monotonic() < deadline, "Chromium opened no tab"
        pause.wait(0.05)
