"""The example of `docs/agents.md` as it is written: the framework, the voice and the presenter are real, the room is not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from livekit.agents.utils import http_context
from service import service

from tests.support.speech_api import speech_api, tone_bytes

DOCUMENT = Path(__file__).parents[3] / "docs" / "agents.md"


def test_the_example_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)
    (block,) = [one for one in blocks if "livekit" in one]
    assert len(block.splitlines()) < 40
    for name, value in {
        "LIVEKIT_URL": "wss://live.example",
        "LIVEKIT_API_KEY": "k",
        "LIVEKIT_API_SECRET": "s" * 32,
    }.items():
        monkeypatch.setenv(name, value)

    async def run() -> None:
        async with service(tmp_path) as there:
            monkeypatch.setenv("LIVEANCHOR_URL", there.url)
            room: Any = there.rooms.agent("agent-1")
            found: dict[str, Any] = {"__name__": "agent"}
            exec(compile(block, "agent.py", "exec"), found)  # noqa: S102  # our own document
            talking = asyncio.ensure_future(found["talk"](SimpleNamespace(room=room)))
            await there.until(lambda: talking.done() or "liveanchor-avatar" in there.rooms.joined)
            await there.until(
                lambda: talking.done() or there.rooms.joined["liveanchor-avatar"].local_participant.published
            )
            listener = there.listener()
            try:
                await there.until(lambda: talking.done() or listener.loud_s() > 0.3)
                if talking.done():
                    await talking
                assert listener.loud_s() > 0.3, "what the agent says is heard from the presenter"
            finally:
                talking.cancel()
                await asyncio.gather(talking, return_exceptions=True)
                await listener.close()

    with speech_api() as speech:
        speech.body = tone_bytes(1.0)
        monkeypatch.setenv("SPEECH_URL", speech.url)
        monkeypatch.setenv("SPEECH_KEY", "none")
        with_http(run)
        assert [body["input"] for body, _ in speech.asked][:1] != []


def with_http(run: Any) -> None:
    """Run with the HTTP client that the framework gives a job."""

    async def whole() -> None:
        async with http_context.open():
            await run()

    asyncio.run(whole())
