"""Messages and secrets as they are answered."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from deployments.video_jobs.webhooks import Message, MessageState, SigningSecret
from serve_app.http.webhooks.body import type_of


class AttemptAnswer(BaseModel):
    """One attempt to deliver a message."""

    at: int = Field(description="Unix seconds, as all times.")
    status: int | None = Field(
        description="HTTP status of the receiver's answer; null where none came.", examples=[500]
    )
    note: str = Field(description="What went wrong; empty where nothing did.", examples=["answered 500"])


class MessageAnswer(BaseModel):
    """One message."""

    id: str = Field(description="`webhook-id`, the same in every attempt.", examples=["msg_video_019ad0a3c2e0b1f2_1"])
    object: Literal["webhook"] = "webhook"
    type: str = Field(examples=["video.completed"])
    url: str = Field(description="Where it goes.", examples=["https://example.com/hooks/videos"])
    state: MessageState = Field(description="`given_up` after the last attempt, or where the receiver answered 410.")
    created_at: int = Field(description="When the video ended.")
    next_attempt_at: int | None = Field(description="Null unless it waits.")
    attempts: list[AttemptAnswer] = Field(description="The last ones, oldest first.")


class MessageList(BaseModel):
    """All messages about a video."""

    object: Literal["list"] = "list"
    data: list[MessageAnswer]


class SecretAnswer(BaseModel):
    """A secret that messages are signed with."""

    secret: str = Field(description="What a receiver verifies signatures with.", examples=["whsec_MfKQ9r8GKYqrTwjU..."])
    created_at: int
    expires_at: int | None = Field(description="From then on nothing is signed with it; null for the newest one.")


class SecretList(BaseModel):
    """The secrets that are valid, newest first."""

    object: Literal["list"] = "list"
    data: list[SecretAnswer]


def message_answer_of(message: Message) -> MessageAnswer:
    """Show a message."""
    return MessageAnswer(
        id=message.message_id,
        type=type_of(message),
        url=message.url,
        state=message.state,
        created_at=int(message.created_at),
        next_attempt_at=None if message.due_at is None else int(message.due_at),
        attempts=[AttemptAnswer(at=int(one.at), status=one.status or None, note=one.note) for one in message.log],
    )


def secret_list_of(valid: tuple[SigningSecret, ...]) -> SecretList:
    """Show the secrets of one owner."""
    shown = [
        SecretAnswer(
            secret=one.text,
            created_at=int(one.created_at),
            expires_at=None if one.expires_at is None else int(one.expires_at),
        )
        for one in valid
    ]
    return SecretList(data=shown)
