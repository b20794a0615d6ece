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

START_S = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "Escape": 27}


def find_chromium() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


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
            message = json.loads(self._socket.recv(timeout=60))
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

    def wait(self, expression: str, timeout_s: float = 60.0) -> Any:
        """Poll until the expression is true; gives its value."""
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
        """A real click into the middle of an element."""
        quoted = json.dumps(selector)
        self.evaluate(f"document.querySelector({quoted}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.evaluate(
            f"(() => {{ const r = document.querySelector({quoted}).getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
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
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as answer:  # our own browser
                target = next(one for one in json.load(answer) if one["type"] == "page")
            with connect(target["webSocketDebuggerUrl"], max_size=2**26) as socket:
                yield Page(socket, process.pid)
        finally:
            process.terminate()
            process.wait(20)


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline, pause = time.monotonic() + START_S, threading.Event()
    while True:
        assert process.poll() is None, "Chromium ended at once"
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        assert time.monotonic() < deadline, "Chromium did not start"
        pause.wait(0.05)
