"""The product's HTTP application over live sessions whose stages draw `ClickStages`, in one process, without Ray.

Routes, WebSocket, session, encoder and transport are the product's; only the stages are not, so that a client can tell to the
sample which picture belongs to which sound. It prints its address when it listens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from benchmarks.live.click_stages import ClickStages, grey_card
from benchmarks.live.in_process import InProcessLive
from deployments.config import SessionHostSettings
from deployments.graph.calls import StageStats
from deployments.host.avatar_commands import AvatarCommand
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, HostStats, JobEvent, JobProgress
from deployments.host.node_copies import Dropped
from deployments.video_jobs.commands import JobCommand
from kernels.errors import InvalidInputError
from serve_app.http.api import create_api
from serve_app.http.settings import ApiSettings

ONLY_LIVE: Final = "live sessions"
SESSIONS: Final[dict[str, Any]] = {
    "encoder": {"prefer": "x264", "threads": 1, "live_preset": "ultrafast"},
    "live": {"max_sessions": 4},
}


class LiveOnly:
    """Implements `serve_app.http.host.Host` and `deployments.video_jobs.store.Jobs` for a service that makes no files."""

    def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Refuse the job."""
        raise InvalidInputError("audio", "a job", ONLY_LIVE)

    async def progress(self, job_id: str) -> JobProgress | None:
        """No job is worked on."""
        return None

    async def handle(self, command: AvatarCommand[Answer] | JobCommand[Answer]) -> Answer:
        """Refuse the command."""
        raise InvalidInputError("command", type(command).__name__, ONLY_LIVE)

    async def ready(self) -> None:
        """Always."""

    async def drop_avatars(self, avatar_ids: Sequence[str]) -> Dropped:
        """No presenter is kept."""
        return Dropped()

    async def wake(self) -> None:
        """Nothing waits."""

    async def host_stats(self) -> list[HostStats]:
        """No file jobs, so no host of theirs."""
        return []

    async def stage_stats(self) -> list[StageStats]:
        """No replicas."""
        return []


def click_service(folder: Path, live_settings: Mapping[str, Any] | None = None) -> FastAPI:
    """Build the application.

    Args:
        folder: Where what the application keeps goes.
        live_settings: Settings of live sessions that differ from the defaults.
    """
    avatar, nothing = grey_card(), LiveOnly()
    chosen = SESSIONS["live"] | dict(live_settings or {})
    settings = SessionHostSettings.model_validate(SESSIONS | {"live": chosen})
    live = InProcessLive(settings, ClickStages(), lambda _: avatar)
    stores = {"results": str(folder / "results"), "uploads": str(folder / "uploads")}
    return create_api(nothing, live, ApiSettings.model_validate({"stores": stores, "live": chosen}), jobs=nothing)


class _Server(uvicorn.Server):
    """Prints where it listens."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="la-click-") as folder:
        config = uvicorn.Config(click_service(Path(folder)), "127.0.0.1", options.port, log_level="warning")
        _Server(config).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
