"""Errors of the agent's servers. What these said is never part of a message: it may hold words of people."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class AgentError(LiveAnchorError):
    """Base of what can be wrong with the servers that hear and answer.

    Args:
        reason: What happened, without the address, the key, and anything that was said.

    Attributes:
        told: What clients are told; the error's own words are for the operator.
    """

    told = ""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AgentMissingError(AgentError):
    """The HTTP client that asks the servers is not installed; `reason` is its name."""

    code = "agent_missing"
    told = "this service cannot ask its agent"

    def __str__(self) -> str:
        """Say in one line what to install."""
        return f"agent.url needs {self.reason}, which is not installed"


class AgentUnreachableError(AgentError):
    """A server does not answer, or has too much work."""

    code = "agent_unreachable"
    told = "the agent does not answer; say it again a little later"
    retryable = True

    def __str__(self) -> str:
        """Say in one line what happened and which settings name the servers."""
        return f"the agent's server (agent.url, agent.hearing.url) {self.reason}"


class AgentFailedError(AgentError):
    """A server refused the request, or answered something that is no transcript and no reply."""

    code = "agent_failed"
    told = "the agent could not answer"

    def __str__(self) -> str:
        """Say in one line what happened."""
        return f"the agent failed: {self.reason}"
