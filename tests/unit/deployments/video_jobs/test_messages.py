"""Messages about videos in both stores: written with the end of the job, leased, noted, sent again, gone with the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.video_jobs.commands import (
    AddJob,
    CancelJob,
    ClaimJob,
    DeleteJob,
    Failed,
    FinishJob,
    GivenBack,
    Outcome,
    PurgeJobs,
    RetryJob,
    Standing,
)
from deployments.video_jobs.errors import VideoNotFoundError, VideoStateError
from deployments.video_jobs.job import JobFailure, JobResult, JobSpec, JobState
from deployments.video_jobs.store import MOST_LOST, MOST_MESSAGES, JobStore
from deployments.video_jobs.webhooks import (
    LOGGED,
    MOST_OF_OWNER,
    ClaimMessages,
    ForgetSecrets,
    ListMessages,
    Message,
    MessageState,
    NoteAttempt,
    ReadSecrets,
    ReplayMessage,
    RotateSecret,
)
from tests.support.manual_clock import ManualClock

URL = "https://example.com/hook"
SPEC = JobSpec(None, False, 25.0, 8, webhook_url=URL)
RESULT = JobResult("r" * 32, 5000.0, 812_345, "a" * 32, 100, 25.0, 720, 1280, 4.0)
THEIRS = JobFailure("audio_empty", "", "audio", "no samples", "an audio file with speech")
OURS = JobFailure("stage_lost", "renderer lost its replica")
LEASE_S = 60.0
JOB = "video_1"


def add(store: JobStore, spec: JobSpec = SPEC, owner: str = "anna") -> None:
    store.handle(AddJob(JOB, owner, spec, 60.0, {"story": "4711"}))


def finish(store: JobStore, outcome: Outcome) -> None:
    job = store.handle(ClaimJob("w", 30.0))
    assert job is not None
    assert store.handle(FinishJob(job.job_id, job.attempt, outcome)) is Standing.HELD


def due(store: JobStore, most: int = 10) -> tuple[Message, ...]:
    return store.handle(ClaimMessages(LEASE_S, most))


def note(store: JobStore, message: Message, state: MessageState, status: int = 500, again_s: float = 0.0) -> bool:
    return store.handle(NoteAttempt(message.message_id, message.attempt, status, f"answered {status}", state, again_s))


def there(store: JobStore) -> tuple[Message, ...]:
    return store.handle(ListMessages(JOB, "anna"))


def test_a_completed_job_leaves_one_message(store: JobStore, clock: ManualClock) -> None:
    add(store)
    assert due(store) == () and there(store) == ()
    clock.now = 1010.0
    finish(store, RESULT)
    [message] = due(store)
    assert (message.job_id, message.owner, message.url, message.ended) == (JOB, "anna", URL, JobState.COMPLETED)
    assert (message.metadata, message.failure, message.created_at) == ({"story": "4711"}, None, 1010.0)
    assert (message.state, message.attempt, message.tries) == (MessageState.WAITING, 1, 1)
    assert "." not in message.message_id and due(store) == ()


def test_an_end_that_is_told_twice_is_one_message(store: JobStore) -> None:
    add(store)
    job = store.handle(ClaimJob("w", 30.0))
    assert job is not None
    for _ in range(2):
        assert store.handle(FinishJob(JOB, job.attempt, RESULT)) is Standing.HELD
    assert len(there(store)) == 1


def test_a_job_without_an_address_leaves_none(store: JobStore) -> None:
    add(store, replace(SPEC, webhook_url=""))
    finish(store, RESULT)
    assert due(store) == () and there(store) == ()
    with pytest.raises(VideoStateError, match="message"):
        store.handle(ReplayMessage(JOB, None))


def test_only_ends_are_told_and_each_of_them(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, GivenBack())
    finish(store, Failed(OURS, again=True))
    assert there(store) == ()
    clock.now += 3600.0
    finish(store, Failed(OURS, again=True))
    store.handle(RetryJob(JOB, None))
    finish(store, Failed(THEIRS, again=False))
    store.handle(RetryJob(JOB, None))
    store.handle(CancelJob(JOB, None))
    store.handle(RetryJob(JOB, None))
    finish(store, RESULT)
    found = there(store)
    assert [one.ended for one in found] == [JobState.FAILED, JobState.FAILED, JobState.CANCELLED, JobState.COMPLETED]
    assert [one.failure for one in found] == [OURS, THEIRS, None, None]
    assert len({one.message_id for one in found}) == 4


def test_a_job_that_kills_its_workers_is_told(store: JobStore, clock: ManualClock) -> None:
    add(store)
    for _ in range(MOST_LOST + 2):
        store.handle(ClaimJob("w", 30.0))
        clock.now += 30.0
    [message] = there(store)
    assert message.ended is JobState.FAILED and message.failure is not None and message.failure.code == "stage_lost"


def test_an_attempt_that_was_never_noted_is_followed_by_another(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, RESULT)
    [first] = due(store)
    clock.now += LEASE_S
    [second] = due(store)
    assert (second.message_id, second.attempt, second.tries) == (first.message_id, 2, 2)
    assert not note(store, first, MessageState.GIVEN_UP) and there(store)[0].log == ()
    assert note(store, second, MessageState.DELIVERED, 200)
    assert not note(store, second, MessageState.GIVEN_UP)
    clock.now += 10 * LEASE_S
    assert due(store) == () and there(store)[0].state is MessageState.DELIVERED


def test_a_failed_attempt_waits_its_time(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, RESULT)
    for tries in range(1, LOGGED + 3):
        [message] = due(store)
        assert message.tries == tries and len(message.log) == min(tries - 1, LOGGED)
        note(store, message, MessageState.WAITING, 500 + tries, again_s=100.0)
        clock.now += 99.0
        assert due(store) == ()
        clock.now += 1.0
    log = there(store)[0].log
    assert [one.status for one in log] == list(range(503, 503 + LOGGED)) and log[0].note == "answered 503"
    assert [log[n + 1].at - log[n].at for n in range(3)] == [100.0] * 3


def test_the_longest_due_comes_first_and_only_so_many(store: JobStore, clock: ManualClock) -> None:
    for number in range(5):
        store.handle(AddJob(f"video_{number}", "", SPEC, 60.0))
        clock.now += 1
        finish(store, RESULT)
    assert [one.job_id for one in due(store, 2)] == ["video_0", "video_1"]
    assert [one.job_id for one in due(store)] == ["video_2", "video_3", "video_4"]


def test_an_owner_has_so_many_in_flight_and_the_next_owner_s_go_out(store: JobStore, clock: ManualClock) -> None:
    for number in range(MOST_OF_OWNER + 3):
        store.handle(AddJob(f"video_{number}", "anna", SPEC, 60.0))
        finish(store, RESULT)
    clock.now += 1
    store.handle(AddJob("video_b", "berta", SPEC, 60.0))
    finish(store, RESULT)
    first = store.handle(ClaimMessages(LEASE_S, 32, ("anna",) * 2 + ("carla",) * 9))
    assert [one.owner for one in first] == ["anna"] * (MOST_OF_OWNER - 2) + ["berta"]
    assert store.handle(ClaimMessages(LEASE_S, 32, ("anna",) * MOST_OF_OWNER)) == ()
    rest = store.handle(ClaimMessages(LEASE_S, 32))
    assert [one.owner for one in rest] == ["anna"] * MOST_OF_OWNER
    assert {one.tries for one in rest} == {1}, "those that waited were not tried"


@pytest.mark.parametrize("state", [MessageState.DELIVERED, MessageState.GIVEN_UP])
def test_a_message_is_sent_again_when_asked(store: JobStore, clock: ManualClock, state: MessageState) -> None:
    add(store)
    finish(store, RESULT)
    [first] = due(store)
    note(store, first, state)
    clock.now += 1
    again = store.handle(ReplayMessage(JOB, "anna"))
    assert (again.message_id, again.state, again.due_at, again.tries) == (
        first.message_id,
        MessageState.WAITING,
        1001.0,
        0,
    )
    [second] = due(store)
    assert (second.attempt, second.tries, len(second.log)) == (2, 1, 1)
    for owner in ("berta", ""):
        for command in (ReplayMessage, ListMessages):
            with pytest.raises(VideoNotFoundError):
                store.handle(command(JOB, owner))


def test_a_deleted_job_takes_its_messages_along(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, RESULT)
    [message] = due(store)
    store.handle(DeleteJob(JOB, None))
    assert not note(store, message, MessageState.WAITING)
    clock.now += LEASE_S
    assert due(store) == ()


def test_a_job_is_remembered_while_its_message_waits(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, Failed(THEIRS, again=False))
    [message] = due(store)
    note(store, message, MessageState.WAITING, again_s=1e5)
    clock.now += 9e4
    store.handle(PurgeJobs(60.0))
    assert len(there(store)) == 1
    clock.now += 2e4
    [message] = due(store)
    note(store, message, MessageState.DELIVERED, 200)
    store.handle(PurgeJobs(60.0))
    with pytest.raises(VideoNotFoundError):
        there(store)


def test_secrets_belong_to_owners_and_two_are_valid_for_a_while(store: JobStore, clock: ManualClock) -> None:
    assert [one.text for one in store.handle(ReadSecrets("anna", "a1"))] == ["a1"]
    assert [one.text for one in store.handle(ReadSecrets("anna", "a2"))] == ["a1"]
    assert [one.text for one in store.handle(ReadSecrets("", "b1"))] == ["b1"]
    clock.now = 2000.0
    both = store.handle(RotateSecret("anna", "a2", 100.0))
    assert [(one.text, one.created_at, one.expires_at) for one in both] == [
        ("a2", 2000.0, None),
        ("a1", 1000.0, 2100.0),
    ]
    assert store.handle(ReadSecrets("anna", "x")) == both
    clock.now = 2050.0
    assert [one.text for one in store.handle(RotateSecret("anna", "a3", 100.0))] == ["a3", "a2"], "at most two"
    clock.now = 2150.0
    assert [one.text for one in store.handle(ReadSecrets("anna", "x"))] == ["a3"]
    assert [one.text for one in store.handle(RotateSecret("anna", "a4", 0.0))] == ["a4"]
    assert [one.text for one in store.handle(RotateSecret("new", "n1", 100.0))] == ["n1"]
    assert [one.text for one in store.handle(ReadSecrets("", "x"))] == ["b1"]
    assert [store.handle(ForgetSecrets(owner)) for owner in ("anna", "anna", "berta")] == [1, 0, 0]
    assert [one.text for one in store.handle(ReadSecrets("anna", "a5"))] == ["a5"]
    assert [one.text for one in store.handle(ReadSecrets("", "x"))] == ["b1"]


def test_stopping_and_repeating_a_video_writes_no_messages_without_end(store: JobStore) -> None:
    add(store)
    for _ in range(MOST_MESSAGES - 1):
        store.handle(CancelJob(JOB, None))
        store.handle(RetryJob(JOB, None))
    store.handle(CancelJob(JOB, None))
    with pytest.raises(VideoStateError, match="20 messages"):
        store.handle(RetryJob(JOB, None))
    assert len(there(store)) == MOST_MESSAGES
