"""What all commands to a host have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Command(Generic[Answer]):
    """A value that says what is to be done; its type says what the answer is."""
