"""Who asks: whose things a request may see and make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from serve_app.access.keys import SCOPES, Scope

NOBODY: Final = ""
"""Owner of what was made without a key: it belongs to the service, and everybody may use it."""


@dataclass(frozen=True)
class Caller:
    """One caller.

    Attributes:
        owner: Id of the key, the owner of what the request makes; `NOBODY` where no keys are needed.
        scopes: What it may do.
        client: What limits count by: the owner, or the client's address where no keys are needed.
        born_at: Second since the epoch at which the key itself was shown; None for the key itself.
    """

    owner: str
    scopes: frozenset[Scope]
    client: str
    born_at: float | None = None

    @property
    def admin(self) -> bool:
        """Whether the caller sees what others own."""
        return "admin" in self.scopes

    def may(self, scope: Scope) -> bool:
        """Whether the caller may do what a scope allows."""
        return self.admin or scope in self.scopes

    def sees(self, owner: str) -> bool:
        """Whether the caller may see what belongs to an owner."""
        return self.admin or owner == self.owner

    @property
    def only(self) -> str | None:
        """The one owner whose things the caller sees; None where it sees everything."""
        return None if self.admin else self.owner


def anybody(address: str) -> Caller:
    """Return the caller of a service that needs no keys."""
    return Caller(NOBODY, frozenset(SCOPES), address)
