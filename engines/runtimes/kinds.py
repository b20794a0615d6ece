"""Names of the ways of running a network. Settings read them in processes that run none, so nothing else is imported here."""

from __future__ import annotations

from typing import Final, Literal, get_args

RuntimeKind = Literal["auto", "eager", "compiled", "tensorrt"]
RUNTIMES: Final = get_args(RuntimeKind)
