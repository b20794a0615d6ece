"""Whose a live session is: its id says it, so every address below `/stream/` is checked in one place."""

from __future__ import annotations

import re
from typing import Final

from deployments.host.live_errors import SessionNotFoundError
from serve_app.access.caller import Caller
from serve_app.access.owned_ids import is_own

_SESSION: Final = re.compile(r"/stream/[a-z]+/([0-9a-f]{32,})(?:/.*)?", re.DOTALL)
"""An address that names a session: all ids that are given out are of this form."""


def check_session(path: str, caller: Caller) -> None:
    """Refuse a session that is another owner's, in the words for one that does not exist.

    Args:
        path: Path of the address, decoded, below the application's root.
        caller: Who asks.

    Raises:
        SessionNotFoundError: The session is not the caller's.
    """
    found = _SESSION.fullmatch(path)
    if found is not None and not is_own(found.group(1), caller):
        raise SessionNotFoundError(found.group(1))
