"""The web pages (`/`, `/live`, `/talk`, `/watch/{session}`, `/docs`) and their files. No build step, nothing from other servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

WEB_DIR: Final = Path(__file__).resolve().parent.parent / "web"
_REVALIDATE: Final = {"Cache-Control": "no-cache"}


class _Static(StaticFiles):
    """Static files that browsers ask about again (by ETag) instead of keeping an old page after an upgrade."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Answer with a file that browsers must ask about again."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def install_web(api: FastAPI) -> None:
    """Add the pages."""
    router = APIRouter(include_in_schema=False)

    def page(name: str) -> FileResponse:
        return FileResponse(WEB_DIR / name, media_type="text/html; charset=utf-8", headers=_REVALIDATE)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index() -> FileResponse:
        """The page for people."""
        return page("index.html")

    @router.api_route("/live", methods=["GET", "HEAD"])
    async def live() -> FileResponse:
        """The page of live sessions."""
        return page("live.html")

    @router.api_route("/talk", methods=["GET", "HEAD"])
    async def talk() -> FileResponse:
        """The page of conversations."""
        return page("talk.html")

    @router.api_route("/watch/{session_id}", methods=["GET", "HEAD"])
    async def watch(session_id: str) -> FileResponse:
        """The page of those who watch a live session; the browser finds out whether there is one."""
        return page("watch.html")

    @router.api_route("/docs", methods=["GET", "HEAD"])
    async def docs() -> FileResponse:
        """The page for developers."""
        return page("docs.html")

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def favicon() -> FileResponse:
        """What browsers ask for unasked."""
        return FileResponse(WEB_DIR / "icon.svg", media_type="image/svg+xml", headers=_REVALIDATE)

    api.include_router(router)
    api.mount("/static", _Static(directory=WEB_DIR), name="static")
