"""Who a request's videos belong to: the one place where the routes of videos ask."""

from __future__ import annotations

from starlette.requests import Request

from serve_app.http.access.access import caller_of


def owner_of(request: Request) -> str | None:
    """Name of the one owner whose videos the request may see; None for everybody's, as where no keys are needed."""
    return caller_of(request.scope).only
