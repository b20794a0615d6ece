"""The store of video jobs: each operation is atomic, fenced by the attempt, and outlives the process that made it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from deployments.video_jobs.commands import (
    AddJob,
    BeatJob,
    CancelJob,
    ClaimJob,
    CountJobs,
    CountReady,
    DeleteJob,
    Failed,
    FindFailed,
    FinishJob,
    GetJob,
    GivenBack,
    ListJobs,
    Outcome,
    PurgeJobs,
    QueueFacts,
    ReadQueue,
    RetryJob,
    Standing,
)
from deployments.video_jobs.errors import (
    IdempotencyMismatchError,
    JobStoreError,
    TooManyOwnVideosError,
    TooManyVideosError,
    VideoNotFoundError,
    VideoStateError,
)
from deployments.video_jobs.job import JobFailure, JobResult, JobSpec, JobState, VideoJob
from deployments.video_jobs.rows import job_of
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.store import KEY_S, MOST_LOST, RETRY_PAUSE_S, JobStore
from kernels.errors import InvalidInputError
from tests.support.manual_clock import ManualClock

SPEC = JobSpec(None, False, 25.0, 8, seed=7)
RESULT = JobResult("r" * 32, 5000.0, 812_345, "a" * 32, 100, 25.0, 720, 1280, 4.0)
OURS = JobFailure("stage_lost", "renderer lost its replica")
THEIRS = JobFailure("audio_empty", "", "audio", "no samples", "an audio file with speech")
LEASE_S = 30.0


def add(store: JobStore, job_id: str = "video_1", owner: str = "", **values: object) -> VideoJob:
    return store.handle(replace(AddJob(job_id, owner, SPEC, 60.0), **values)).job  # type: ignore[arg-type]


def claim(store: JobStore) -> VideoJob:
    job = store.handle(ClaimJob("test", LEASE_S))
    assert job is not None
    return job


def finish(store: JobStore, job: VideoJob, outcome: Outcome) -> Standing:
    return store.handle(FinishJob(job.job_id, job.attempt, outcome))


def test_the_life_of_a_job(store: JobStore, clock: ManualClock) -> None:
    added = store.handle(AddJob("video_1", "anna", SPEC, 60.0, {"story": "4711"}))
    assert added.created and added.job.state is JobState.QUEUED and added.job.place == 1
    assert (added.job.spec, added.job.metadata, added.job.created_at) == (SPEC, {"story": "4711"}, 1000.0)
    clock.now = 1005.0
    job = claim(store)
    assert (job.state, job.attempt, job.started_at, job.place) == (JobState.RUNNING, 1, 1005.0, 0)
    assert store.handle(ClaimJob("other", LEASE_S)) is None
    assert store.handle(BeatJob("video_1", 1, LEASE_S, 40, 100)) is Standing.HELD
    assert store.handle(GetJob("video_1", "anna")).done == 40
    clock.now = 1010.0
    assert finish(store, job, RESULT) is Standing.HELD
    ended = store.handle(GetJob("video_1", "anna"))
    assert (ended.state, ended.result, ended.ended_at, ended.done) == (JobState.COMPLETED, RESULT, 1010.0, 100)
    assert store.handle(ClaimJob("other", LEASE_S)) is None


def test_what_was_accepted_is_there_for_the_next_process(path: Path, clock: ManualClock) -> None:
    first = SqliteJobStore(path, clock)
    add(first)
    first.close()
    second = SqliteJobStore(path, clock)
    assert claim(second).spec == SPEC
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_lease_that_ran_out_is_another_s_and_the_first_cannot_write(store: JobStore, clock: ManualClock) -> None:
    add(store)
    first = claim(store)
    clock.now += LEASE_S - 1
    assert store.handle(ClaimJob("b", LEASE_S)) is None
    clock.now += 1
    second = claim(store)
    assert (second.attempt, second.started_at) == (2, first.started_at)
    assert store.handle(BeatJob("video_1", 1, LEASE_S, 90, 100)) is Standing.LOST
    assert store.handle(GetJob("video_1", None)).done == 0
    for outcome in (RESULT, Failed(OURS, again=True), GivenBack()):
        assert finish(store, first, outcome) is Standing.LOST
    assert finish(store, second, RESULT) is Standing.HELD
    assert finish(store, first, replace(RESULT, result_id="other")) is Standing.LOST
    assert store.handle(GetJob("video_1", None)).result == RESULT


def test_a_late_beat_saves_an_attempt_that_no_other_followed(store: JobStore, clock: ManualClock) -> None:
    add(store)
    job = claim(store)
    clock.now += 10 * LEASE_S
    assert store.handle(BeatJob("video_1", job.attempt, LEASE_S)) is Standing.HELD
    assert store.handle(ClaimJob("b", LEASE_S)) is None


def test_an_end_that_is_told_twice_is_the_same_end(store: JobStore) -> None:
    add(store)
    job = claim(store)
    assert [finish(store, job, RESULT) for _ in range(2)] == [Standing.HELD] * 2
    assert finish(store, job, Failed(OURS, again=True)) is Standing.LOST
    assert store.handle(GetJob("video_1", None)).state is JobState.COMPLETED


def test_errors_of_input_are_final(store: JobStore) -> None:
    add(store)
    finish(store, claim(store), Failed(THEIRS, again=False))
    job = store.handle(GetJob("video_1", None))
    assert (job.state, job.failure, job.attempt) == (JobState.FAILED, THEIRS, 1)


def test_our_errors_are_tried_once_more_after_a_pause(store: JobStore, clock: ManualClock) -> None:
    add(store)
    finish(store, claim(store), Failed(OURS, again=True))
    assert store.handle(GetJob("video_1", None)).state is JobState.QUEUED
    assert store.handle(ClaimJob("b", LEASE_S)) is None and store.handle(CountReady()) == 0
    clock.now += RETRY_PAUSE_S
    assert store.handle(CountReady()) == 1
    finish(store, claim(store), Failed(OURS, again=True))
    job = store.handle(GetJob("video_1", None))
    assert (job.state, job.failure, job.attempt) == (JobState.FAILED, OURS, 2)


def test_work_that_is_given_back_counts_as_no_failure(store: JobStore, clock: ManualClock) -> None:
    add(store)
    for _ in range(10):
        assert finish(store, claim(store), GivenBack()) is Standing.HELD
    assert finish(store, claim(store), RESULT) is Standing.HELD


def test_a_job_that_kills_its_workers_is_given_up(store: JobStore, clock: ManualClock) -> None:
    add(store)
    for _ in range(MOST_LOST + 1):
        claim(store)
        clock.now += LEASE_S
    assert store.handle(ClaimJob("b", LEASE_S)) is None
    job = store.handle(GetJob("video_1", None))
    assert job.state is JobState.FAILED and job.failure is not None and job.failure.code == "stage_lost"


def test_the_longest_waiting_comes_first_and_lost_jobs_before_it(store: JobStore, clock: ManualClock) -> None:
    for number in range(4):
        add(store, f"video_{number}")
        clock.now += 1
    places = [store.handle(GetJob(f"video_{number}", None)).place for number in range(4)]
    assert places == [1, 2, 3, 4]
    assert claim(store).job_id == "video_0"
    assert store.handle(GetJob("video_3", None)).place == 3
    clock.now += LEASE_S
    assert [claim(store).job_id for _ in range(4)] == ["video_0", "video_1", "video_2", "video_3"]


def test_an_owner_with_many_jobs_does_not_keep_others_waiting(store: JobStore, clock: ManualClock) -> None:
    for number in range(4):
        add(store, f"video_a{number}", "anna")
        clock.now += 1
    add(store, "video_b0", "berta")
    add(store, "video_b1", "berta")
    claimed = [claim(store) for _ in range(5)]
    assert [job.job_id[6:] for job in claimed] == ["a0", "b0", "a1", "b1", "a2"], "in turn, then what is left"
    finish(store, claimed[1], Failed(OURS, again=True))  # it waits ten seconds, and nobody waits for it
    clock.now += 0.5
    assert claim(store).job_id == "video_a3" and store.handle(ClaimJob("w", LEASE_S)) is None
    clock.now += RETRY_PAUSE_S
    assert claim(store).job_id == "video_b0"


def test_the_queue_in_redis_is_what_waits_and_nothing_else(redis_url: str, clock: ManualClock) -> None:
    """Whatever another version left there: a job that is being made, one that is gone, and none of its sets by owner."""
    import redis

    from deployments.video_jobs.redis_store import PREFIX, RedisJobStore

    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushall()
    store = RedisJobStore(redis_url, clock)
    add(store, "video_1", "anna")
    assert claim(store).attempt == 1
    for name in ("queued", "queued:anna"):
        client.zadd(PREFIX + name, {"video_1": 1.0, "video_gone": 2.0})
    client.sadd(PREFIX + "waiting_owners", "anna")
    assert store.handle(ClaimJob("w", LEASE_S)) is None, "it would be made twice"
    assert store.handle(ReadQueue()) == QueueFacts(0, 0.0, 1, 0)
    add(store, "video_2", "berta")
    client.delete(PREFIX + "queued:berta", PREFIX + "waiting_owners")
    assert claim(store).job_id == "video_2"
    store.close()
    client.close()


def test_length_and_age_of_the_queue(store: JobStore, clock: ManualClock) -> None:
    assert store.handle(ReadQueue()) == QueueFacts(0, 0.0, 0, 0)
    add(store, "video_1", spec=replace(SPEC, webhook_url="https://example.com/"))
    clock.now += 7.5
    add(store, "video_2")
    clock.now += 1
    assert store.handle(ReadQueue()) == QueueFacts(2, 8.5, 0, 0)
    finish(store, claim(store), RESULT)
    assert store.handle(ReadQueue()) == QueueFacts(1, 1.0, 0, 1)
    claim(store)
    assert store.handle(ReadQueue()) == QueueFacts(0, 0.0, 1, 1)


def test_one_key_makes_one_job_of_its_owner(store: JobStore, clock: ManualClock) -> None:
    keyed = AddJob("video_1", "anna", SPEC, 60.0, idempotency_key="a-key-4711", fingerprint="f")
    assert store.handle(keyed).created
    again = store.handle(replace(keyed, job_id="video_2"))
    assert not again.created and again.job.job_id == "video_1"
    with pytest.raises(IdempotencyMismatchError) as raised:
        store.handle(replace(keyed, job_id="video_3", fingerprint="another"))
    assert raised.value.field == "Idempotency-Key"
    assert store.handle(replace(keyed, job_id="video_4", owner="berta")).created
    clock.now += KEY_S
    assert store.handle(replace(keyed, job_id="video_5", fingerprint="another")).created
    assert sum(store.handle(CountJobs()).values()) == 3


def test_a_repeated_call_with_the_same_id_adds_nothing(store: JobStore) -> None:
    command = AddJob("video_1", "", SPEC, 60.0)
    assert [store.handle(command).created for _ in range(2)] == [True, False]
    assert store.handle(CountJobs()) == {JobState.QUEUED: 1}


def test_only_so_many_wait(store: JobStore) -> None:
    for number in range(3):
        add(store, f"video_{number}", max_queued=3)
    with pytest.raises(TooManyVideosError, match="3 videos wait"):
        add(store, "video_3", max_queued=3)
    claim(store)
    add(store, "video_3", max_queued=3)


def test_only_so_many_of_an_owner_wait_retries_among_them(store: JobStore) -> None:
    for number in range(2):
        store.handle(AddJob(f"video_{number}", "anna", SPEC, 60.0, max_own=2))
    with pytest.raises(TooManyOwnVideosError, match="2 videos of this key wait"):
        store.handle(AddJob("video_2", "anna", SPEC, 60.0, max_own=2))
    store.handle(AddJob("video_3", "berta", SPEC, 60.0, max_own=2))
    store.handle(CancelJob("video_0", "anna"))
    store.handle(AddJob("video_4", "anna", SPEC, 60.0, max_own=2))
    with pytest.raises(TooManyOwnVideosError):
        store.handle(RetryJob("video_0", "anna", max_own=2))
    with pytest.raises(TooManyVideosError):
        store.handle(RetryJob("video_0", "anna", max_queued=3))
    assert store.handle(GetJob("video_0", "anna")).state is JobState.CANCELLED
    claim(store)
    assert store.handle(RetryJob("video_0", "anna", max_queued=3, max_own=2)).state is JobState.QUEUED


def test_a_cancelled_attempt_learns_it_and_cannot_finish(store: JobStore, clock: ManualClock) -> None:
    add(store)
    job = claim(store)
    assert store.handle(CancelJob("video_1", "")).state is JobState.CANCELLED
    assert store.handle(BeatJob("video_1", job.attempt, LEASE_S)) is Standing.CANCELLED
    assert finish(store, job, RESULT) is Standing.CANCELLED
    clock.now += LEASE_S
    assert store.handle(ClaimJob("b", LEASE_S)) is None
    with pytest.raises(VideoStateError):
        store.handle(CancelJob("video_1", ""))


def test_a_retry_begins_anew_and_old_attempts_stay_shut_out(store: JobStore) -> None:
    add(store)
    old = claim(store)
    store.handle(CancelJob("video_1", None))
    assert store.handle(RetryJob("video_1", None)).state is JobState.QUEUED
    assert finish(store, old, RESULT) is Standing.LOST
    new = claim(store)
    assert new.attempt == 2 and finish(store, new, RESULT) is Standing.HELD
    with pytest.raises(VideoStateError):
        store.handle(RetryJob("video_1", None))


def test_a_deleted_job_is_gone_for_its_attempt_too(store: JobStore) -> None:
    add(store)
    job = claim(store)
    assert store.handle(DeleteJob("video_1", "")).state is JobState.RUNNING
    assert store.handle(BeatJob("video_1", job.attempt, LEASE_S)) is Standing.LOST
    assert finish(store, job, RESULT) is Standing.LOST
    with pytest.raises(VideoNotFoundError):
        store.handle(GetJob("video_1", ""))


@pytest.mark.parametrize("command", [GetJob, CancelJob, RetryJob, DeleteJob])
def test_another_owner_s_job_is_not_there(store: JobStore, command: type[GetJob]) -> None:
    add(store, owner="anna")
    for stranger in ("berta", ""):
        with pytest.raises(VideoNotFoundError):
            store.handle(command("video_1", stranger))
    assert store.handle(GetJob("video_1", "anna")).state is JobState.QUEUED
    assert store.handle(GetJob("video_1", None)).owner == "anna"


def test_pages_hold_every_job_once_in_either_order(store: JobStore, clock: ManualClock) -> None:
    for number in range(7):
        add(store, f"video_{number}", owner="anna" if number % 2 else "berta")
        clock.now += number // 3  # some are of the same moment
    for owner, expected in ((None, 7), ("anna", 3), ("berta", 4), ("carla", 0)):
        for newest_first in (True, False):
            found: list[str] = []
            more = True
            while more:
                page = store.handle(ListJobs(owner, 2, found[-1] if found else "", newest_first))
                found += [job.job_id for job in page.jobs]
                more = page.has_more
            assert found == sorted(found, reverse=newest_first) and len(found) == expected
    with pytest.raises(InvalidInputError) as raised:
        store.handle(ListJobs("anna", 2, "video_0"))
    assert raised.value.field == "after"


def test_counts_are_by_owner_and_state(store: JobStore) -> None:
    add(store, "video_1", "anna")
    add(store, "video_2", "berta")
    finish(store, claim(store), RESULT)
    assert store.handle(CountJobs()) == {JobState.COMPLETED: 1, JobState.QUEUED: 1}
    assert store.handle(CountJobs("berta")) == {JobState.QUEUED: 1}


def test_old_jobs_are_forgotten_with_uploads_that_no_job_needs(store: JobStore, clock: ManualClock) -> None:
    for number in range(3):
        add(store, f"video_{number}")
    finish(store, claim(store), replace(RESULT, expires_at=9000.0))
    finish(store, claim(store), Failed(THEIRS, again=False))
    uploads = ("video_0", "video_1", "video_2", "video_x")
    assert store.handle(PurgeJobs(3600.0, uploads)) == ("video_0", "video_x")
    clock.now += 3600.0  # the first one's file is kept longer than that
    assert store.handle(PurgeJobs(3600.0, uploads)) == ("video_0", "video_1", "video_x")
    assert store.handle(CountJobs()) == {JobState.COMPLETED: 1, JobState.QUEUED: 1}
    clock.now = 9000.0
    store.handle(PurgeJobs(3600.0))
    assert store.handle(CountJobs()) == {JobState.QUEUED: 1}


def test_failed_jobs_are_found_in_the_order_of_their_ends(store: JobStore, clock: ManualClock) -> None:
    ids = tuple(f"video_{number}" for number in range(5))
    for job_id in ids:
        add(store, job_id)
    finish(store, claim(store), RESULT)
    for job_id in ("video_3", "video_1"):
        clock.now += 1
        store.handle(CancelJob(job_id, None))
    finish(store, claim(store), Failed(THEIRS, again=False))
    assert store.handle(FindFailed((*ids, "video_x"))) == ("video_3", "video_1", "video_2")
    assert store.handle(FindFailed(())) == ()


def test_of_many_that_claim_at_once_each_gets_another_job(path: Path) -> None:
    for number in range(60):
        add(SqliteJobStore(path), f"video_{number:02}")
    claimed: Counter[str] = Counter()
    lock = threading.Lock()

    def work() -> None:
        own = SqliteJobStore(path)  # a connection of its own, as another process has
        while (job := own.handle(ClaimJob("w", LEASE_S))) is not None:
            assert own.handle(FinishJob(job.job_id, job.attempt, RESULT)) is Standing.HELD
            with lock:
                claimed[job.job_id] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == 60 and set(claimed.values()) == {1}


# a store that cannot be used


def test_a_full_disk_takes_nothing_in_and_loses_nothing(path: Path, clock: ManualClock) -> None:
    store = SqliteJobStore(path, clock, max_pages=40)
    accepted = []
    with pytest.raises(JobStoreError, match="full"):
        for number in range(1000):
            add(store, f"video_{number:04}", metadata={"long": "x" * 400})
            accepted.append(f"video_{number:04}")
    assert len(accepted) > 10
    assert store.handle(CountJobs()) == {JobState.QUEUED: len(accepted)}
    store.close()
    more = SqliteJobStore(path, clock)
    assert [claim(more).job_id for _ in accepted] == accepted
    add(more, "video_new")


def test_a_file_that_vanished_is_not_replaced_in_silence(path: Path, clock: ManualClock) -> None:
    store = SqliteJobStore(path, clock)
    add(store)
    elsewhere = path.parent.with_name("elsewhere")
    path.parent.rename(elsewhere)
    for _ in range(2):
        with pytest.raises(JobStoreError):
            add(store, "video_2")
    assert not path.exists()
    elsewhere.rename(path.parent)
    add(store, "video_2")
    assert store.handle(CountJobs()) == {JobState.QUEUED: 2}


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(os.urandom(8192))
    with pytest.raises(JobStoreError, match="not a database"):
        add(SqliteJobStore(path))


def test_a_server_that_is_away_is_told_without_its_password() -> None:
    pytest.importorskip("redis")
    from deployments.video_jobs.redis_store import RedisJobStore

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        store = RedisJobStore(f"redis://:s3cret@127.0.0.1:{taken.getsockname()[1]}/0")
        with pytest.raises(JobStoreError) as raised:
            add(store)
    assert "s3cret" not in str(raised.value) and "127.0.0.1" in str(raised.value)


def test_a_row_of_a_newer_version_is_read_without_what_it_knows_besides(store: JobStore) -> None:
    add(store)
    job = claim(store)
    row = {"id": job.job_id, "owner": "", "state": "queued", "metadata": "{}", "keep_s": 1, "created_at": 1}
    row |= {"attempt": 1, "done": 0, "total": 0, "place": 0, "spec": json.dumps(asdict(SPEC) | {"emotion": "happy"})}
    assert job_of(row).spec == SPEC
