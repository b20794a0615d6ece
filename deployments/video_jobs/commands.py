"""What is asked of the store of jobs, as values; the type of a command says what the answer is. Each is one atomic operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deployments.host.command import Answer, Command
from deployments.video_jobs.job import JobFailure, JobResult, JobSpec, JobState, VideoJob


@dataclass(frozen=True)
class JobCommand(Command[Answer]):
    """Base of all commands. Every one may raise JobStoreError."""


@dataclass(frozen=True)
class Added:
    """Answers `AddJob`.

    Attributes:
        job: The job.
        created: Whether this call made it; otherwise an earlier call with the same key, or the same id, did.
    """

    job: VideoJob
    created: bool


@dataclass(frozen=True)
class AddJob(JobCommand[Added]):
    """Accept a job. Raises IdempotencyMismatchError, TooManyVideosError, TooManyOwnVideosError.

    Attributes:
        job_id: A new id. A repeated call with the same id adds nothing.
        owner: Who makes it; empty for nobody.
        spec: What is asked for.
        keep_s: Seconds for which the file is to be kept.
        metadata: Pairs of text to keep with it.
        idempotency_key: Within 24 hours, the same owner and key add one job only; empty for no key.
        fingerprint: Digest of the request; must be the same where the key is.
        max_queued: Most jobs that may wait, this one included.
        max_own: Most jobs of this owner that may wait, this one included; 0 for any number.
    """

    job_id: str
    owner: str
    spec: JobSpec
    keep_s: float
    metadata: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    fingerprint: str = ""
    max_queued: int = 1000
    max_own: int = 0


@dataclass(frozen=True)
class ClaimJob(JobCommand[VideoJob | None]):
    """Begin an attempt: of a job whose lease ran out, else of one that waits. None where there is none.

    Of those that wait, the next one belongs to an owner who has the fewest in work, and is the oldest of these.

    Attributes:
        worker: Name of the caller, for people.
        lease_s: Seconds for which the attempt is safe without a beat.
    """

    worker: str
    lease_s: float


class Standing(StrEnum):
    """How an attempt stands: it may go on (`held`), the job was cancelled, or the job is another attempt's or gone (`lost`)."""

    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True)
class BeatJob(JobCommand[Standing]):
    """Renew an attempt's lease and say how far it is.

    Attributes:
        job_id: Id of the job.
        attempt: The caller's attempt.
        lease_s: Seconds from now for which it is safe.
        done: Pictures that are made.
        total: Pictures in all; 0 while unknown.
    """

    job_id: str
    attempt: int
    lease_s: float
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Failed:
    """An attempt ended with an error.

    Attributes:
        failure: What happened.
        again: Whether another attempt may help: the fault is ours. At most two attempts of a job fail so.
    """

    failure: JobFailure
    again: bool


@dataclass(frozen=True)
class GivenBack:
    """An attempt ended before its time, through no fault of the job: the process that made it was told to stop."""


Outcome = JobResult | Failed | GivenBack


@dataclass(frozen=True)
class FinishJob(JobCommand[Standing]):
    """End an attempt. Nothing is written unless the answer is `held`; a repeated call gives the same answer.

    Attributes:
        job_id: Id of the job.
        attempt: The caller's attempt.
        outcome: How it ended.
    """

    job_id: str
    attempt: int
    outcome: Outcome


@dataclass(frozen=True)
class OwnedJobCommand(JobCommand[Answer]):
    """Base of commands about one job of one owner. Raises VideoNotFoundError.

    Attributes:
        job_id: Id of the job.
        owner: Whose job it must be; None for anybody's.
    """

    job_id: str
    owner: str | None


@dataclass(frozen=True)
class GetJob(OwnedJobCommand[VideoJob]):
    """Read a job."""


@dataclass(frozen=True)
class CancelJob(OwnedJobCommand[VideoJob]):
    """End a job that waits or is being made; its attempt learns it with the next beat. Raises VideoStateError."""


@dataclass(frozen=True)
class RetryJob(OwnedJobCommand[VideoJob]):
    """Queue a failed or cancelled job again, where it stood. Raises VideoStateError, TooManyVideosError, TooManyOwnVideosError.

    A job about which `MOST_MESSAGES` messages were written is not queued again.

    Attributes:
        max_queued: Most jobs that may wait, this one included; 0 for any number.
        max_own: Most jobs of its owner that may wait, this one included; 0 for any number.
    """

    max_queued: int = 0
    max_own: int = 0


@dataclass(frozen=True)
class DeleteJob(OwnedJobCommand[VideoJob]):
    """Forget a job, whatever its state, and answer what it was; its attempt learns it with the next beat."""


@dataclass(frozen=True)
class JobPage:
    """Answers `ListJobs`.

    Attributes:
        jobs: Jobs, in order.
        has_more: Whether more come after the last one.
    """

    jobs: tuple[VideoJob, ...]
    has_more: bool


@dataclass(frozen=True)
class ListJobs(JobCommand[JobPage]):
    """List jobs in the order of their creation. Raises InvalidInputError where `after` is no job of the owner.

    Attributes:
        owner: Whose jobs; None for everybody's.
        limit: Most jobs on the page.
        after: Id of the job after which the page begins; empty for the first page.
        newest_first: The order.
    """

    owner: str | None
    limit: int = 20
    after: str = ""
    newest_first: bool = True


@dataclass(frozen=True)
class CountJobs(JobCommand[dict[JobState, int]]):
    """Count the jobs in every state that there are any in.

    Attributes:
        owner: Whose jobs; None for everybody's.
    """

    owner: str | None = None


@dataclass(frozen=True)
class CountReady(JobCommand[int]):
    """Count the jobs that `ClaimJob` would find now."""


@dataclass(frozen=True)
class QueueFacts:
    """Answers `ReadQueue`.

    Attributes:
        waiting: Jobs that wait.
        waiting_s: Seconds for which the oldest of them has waited since it was accepted; 0 where there is none.
        running: Jobs that are being made.
        messages: Messages that were not delivered yet.
    """

    waiting: int
    waiting_s: float
    running: int
    messages: int


@dataclass(frozen=True)
class ReadQueue(JobCommand[QueueFacts]):
    """Read how long the queue is, and how old."""


@dataclass(frozen=True)
class PurgeJobs(JobCommand[tuple[str, ...]]):
    """Forget jobs that ended long ago, and answer which uploads no job needs any more.

    Attributes:
        keep_s: Seconds for which ended jobs are remembered; longer where their file is kept longer.
        uploads: Ids of jobs whose uploads are there.
    """

    keep_s: float
    uploads: tuple[str, ...] = ()


@dataclass(frozen=True)
class FindFailed(JobCommand[tuple[str, ...]]):
    """Tell which jobs have failed or were cancelled, those that ended first first.

    Attributes:
        among: Ids of jobs.
    """

    among: tuple[str, ...]
