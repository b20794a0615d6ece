"""What is asked of the avatars of the cluster, as values; the type of a command says what the answer is."""

from __future__ import annotations

from dataclasses import dataclass, field

from deployments.host.avatar_consents import Consent
from deployments.host.command import Answer, Command
from pipeline.avatars.quota import AvatarQuota
from pipeline.avatars.store import AvatarSummary


@dataclass(frozen=True)
class AvatarCommand(Command[Answer]):
    """Base of all commands; any host does any of them.

    Attributes:
        only: The one owner whose avatars, and shared ones, the caller sees; None for a caller that sees all.
    """

    only: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class RegisterAvatar(AvatarCommand[AvatarSummary]):
    """Make a presenter of a portrait or a short video and store it. Raises PortraitError, AvatarsFullError.

    Attributes:
        data: Bytes of the picture or video.
        name: Name for people; may be empty.
        rename: Whether a presenter that has a name takes this one over.
        temporary: Whether it need not stay, as for a job that is about to come.
        quota: Bounds on all presenters; None for no bounds.
        owner: Who registers it; empty where it is for everybody.
        own_quota: Bounds on the presenters of this owner; None for no bounds.
        consent: What was agreed to, kept with the presenter; empty for nothing.
    """

    data: bytes
    name: str
    rename: bool = True
    temporary: bool = False
    quota: AvatarQuota | None = None
    owner: str = ""
    own_quota: AvatarQuota | None = None
    consent: str = ""


@dataclass(frozen=True)
class ListAvatars(AvatarCommand[list[AvatarSummary]]):
    """List all presenters that have not expired."""


@dataclass(frozen=True)
class GetAvatar(AvatarCommand[AvatarSummary]):
    """Describe one presenter. Raises AvatarNotFoundError.

    Attributes:
        avatar_id: Its id; empty for the default presenter.
    """

    avatar_id: str


@dataclass(frozen=True)
class ReadPreview(AvatarCommand[bytes]):
    """Read a JPEG of at most 512 pixels a side. Raises AvatarNotFoundError.

    Attributes:
        avatar_id: Id of the presenter.
    """

    avatar_id: str


@dataclass(frozen=True)
class ReadConsents(AvatarCommand[tuple[Consent, ...]]):
    """Read what was agreed to about a presenter: the caller's own statement, all for one who sees all. Raises AvatarNotFoundError.

    Attributes:
        avatar_id: Id of the presenter.
    """

    avatar_id: str


@dataclass(frozen=True)
class Left:
    """Something that could not be removed.

    Attributes:
        kind: What it is: `presenter`, `video`, `result` ...
        name: Which one.
        reason: Why it stays.
    """

    kind: str
    name: str
    reason: str


@dataclass(frozen=True)
class Forgotten:
    """Answers `ForgetAvatars`.

    Attributes:
        presenters: Ids of the presenters that went.
        kept: Ids of presenters that stay, because they are others' too; the owner's own name and statement went.
        consents: Number of statements that went.
        left: What could not be removed.
    """

    presenters: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    consents: int = 0
    left: tuple[Left, ...] = ()


@dataclass(frozen=True)
class ForgetAvatars(AvatarCommand[Forgotten]):
    """Remove all presenters of an owner, or one presenter of all owners, with what was noted about them, expired ones included.

    Attributes:
        owner: Whose presenters; empty for everybody's.
        avatar_id: The one presenter; empty for all of the owner.
        dry_run: Whether all stays, and the answer says what would go.
    """

    owner: str = ""
    avatar_id: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class DeleteAvatar(AvatarCommand[None]):
    """Remove a presenter; jobs that already use it finish. Raises AvatarNotFoundError, AvatarSharedError.

    Attributes:
        avatar_id: Id of the presenter.
    """

    avatar_id: str
