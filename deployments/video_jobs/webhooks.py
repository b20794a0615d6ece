"""Messages that tell callers how their videos ended, and what is asked of the store about them.

The store writes a message in the same transaction in which a job ends that has a `webhook_url` (an outbox). Whoever sends messages
claims those that are due, with a lease, and notes how each attempt went. A message may arrive twice, under the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deployments.host.command import Answer
from deployments.video_jobs.commands import JobCommand, OwnedJobCommand
from deployments.video_jobs.job import JobFailure, JobState

LOGGED: Final = 20
"""Attempts of one message that are remembered; older ones are forgotten first."""
MOST_OF_OWNER: Final = 4
"""Messages of one owner that one sender sends at once: receivers that never answer hold up their owner's messages alone."""


class MessageState(StrEnum):
    """Where a message stands: it is due now or later, its receiver took it, or it is given up."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


@dataclass(frozen=True)
class Attempt:
    """One attempt to deliver a message.

    Attributes:
        at: Second since the epoch at which its outcome was noted.
        status: HTTP status of the answer; 0 where none came.
        note: What went wrong, in a few words; empty where nothing did.
    """

    at: float
    status: int
    note: str


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        message_id: Its id, the same in every attempt.
        job_id: Id of the video.
        owner: Whose video it is.
        url: Where the message goes.
        ended: How the video ended.
        metadata: Pairs of text that the caller attached to the video.
        failure: Why there is no file; None unless the video failed.
        created_at: Second since the epoch at which the video ended.
        state: Where the message stands.
        due_at: Second since the epoch from which it is tried again; None unless it waits.
        attempt: Number of the attempt that may note its outcome.
        tries: Attempts since the message was written or replayed.
        log: The last attempts, oldest first.
    """

    message_id: str
    job_id: str
    owner: str
    url: str
    ended: JobState
    metadata: Mapping[str, str]
    failure: JobFailure | None
    created_at: float
    state: MessageState
    due_at: float | None
    attempt: int
    tries: int
    log: tuple[Attempt, ...]


@dataclass(frozen=True)
class SigningSecret:
    """A secret that an owner's messages are signed with.

    Attributes:
        text: `whsec_` and base64.
        created_at: Second since the epoch at which it was made.
        expires_at: Second since the epoch from which nothing is signed with it; None for the newest one.
    """

    text: str
    created_at: float
    expires_at: float | None = None


class WebhookCommand(JobCommand[Answer]):
    """Marks commands about messages and secrets."""


@dataclass(frozen=True)
class ClaimMessages(WebhookCommand[tuple[Message, ...]]):
    """Begin an attempt of each message that is due, those that are due longest first, and no more than `MOST_OF_OWNER` of an owner.

    Attributes:
        lease_s: Seconds after which a message is due again whose attempt was never noted.
        most: Most messages.
        in_flight: Owner of each message that the caller is sending already.
    """

    lease_s: float
    most: int
    in_flight: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoteAttempt(WebhookCommand[bool]):
    """Say how an attempt went. Answers False, and changes nothing, where a later attempt has begun.

    Attributes:
        message_id: Id of the message.
        attempt: The caller's attempt.
        status: HTTP status of the answer; 0 where none came.
        note: What went wrong; empty where nothing did.
        state: Where the message stands now.
        again_s: Seconds until the next attempt, where it waits.
    """

    message_id: str
    attempt: int
    status: int
    note: str
    state: MessageState
    again_s: float = 0.0


@dataclass(frozen=True)
class ListMessages(OwnedJobCommand[tuple[Message, ...]], WebhookCommand[tuple[Message, ...]]):
    """Read all messages about a job, oldest first."""


@dataclass(frozen=True)
class ReplayMessage(OwnedJobCommand[Message], WebhookCommand[Message]):
    """Send the last message about a job again, now, whether it was delivered or not. Raises VideoStateError where there is none."""


@dataclass(frozen=True)
class ReadSecrets(WebhookCommand[tuple[SigningSecret, ...]]):
    """Read the secrets of an owner that are valid, newest first: one, or two after a rotation.

    Attributes:
        owner: Whose.
        fresh: Becomes the owner's secret where there is none.
    """

    owner: str
    fresh: str


@dataclass(frozen=True)
class ForgetSecrets(WebhookCommand[int]):
    """Forget the secrets of an owner, and answer how many were valid.

    Attributes:
        owner: Whose.
    """

    owner: str


@dataclass(frozen=True)
class RotateSecret(WebhookCommand[tuple[SigningSecret, ...]]):
    """Sign with a new secret from now on, and with the newest one before it for a while.

    Attributes:
        owner: Whose.
        fresh: The new secret.
        overlap_s: Seconds for which messages are signed with both.
    """

    owner: str
    fresh: str
    overlap_s: float
