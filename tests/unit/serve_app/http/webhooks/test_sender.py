"""Messages on their way: signed as the reference library verifies it, tried again for a day, and never into the own network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import pytest
from openai import OpenAI
from standardwebhooks import Webhook, WebhookVerificationError

from deployments.video_jobs.commands import AddJob, CancelJob
from deployments.video_jobs.job import JobSpec
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.webhooks import (
    MOST_OF_OWNER,
    ListMessages,
    Message,
    MessageState,
    ReadSecrets,
    ReplayMessage,
    RotateSecret,
)
from serve_app.http.webhooks.schedule import JITTER, LONGEST_ASKED_S, PAUSES_S, asked_seconds, verdict
from serve_app.http.webhooks.sender import LEASE_S
from serve_app.http.webhooks.signature import new_secret, signed_headers
from tests.support.http_server import wait_for
from tests.support.manual_clock import ManualClock
from tests.support.webhook_receiver import Receiver, completed, receiving, send_due

DAY_S = 24 * 3600.0


@pytest.fixture(scope="module")
def hall() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def receiver(hall: Receiver) -> Receiver:
    hall.came.clear()
    hall.answers.clear()
    return hall


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC).timestamp())  # the reference library looks at the real time


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> SqliteJobStore:
    return SqliteJobStore(tmp_path / "jobs.sqlite3", clock)


def message_of(store: SqliteJobStore) -> Message:
    [found] = store.handle(ListMessages("video_1", None))
    return found


def secrets_of(store: SqliteJobStore, owner: str = "") -> list[str]:
    return [one.text for one in store.handle(ReadSecrets(owner, new_secret()))]


def test_the_reference_library_verifies_what_comes(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock
) -> None:
    completed(store, receiver.url, owner="anna")
    assert send_due(receiver.sender(store, clock)) == 1
    [(headers, body)] = receiver.came
    [secret] = secrets_of(store, "anna")
    said = Webhook(secret).verify(body, headers)
    assert (said["type"], said["data"]["id"], said["data"]["metadata"]) == (
        "video.completed",
        "video_1",
        {"story": "4711"},
    )
    assert said["data"]["content_url"] == "/v1/videos/video_1/content" and said["data"]["error"] is None
    assert datetime.fromisoformat(said["timestamp"]).timestamp() == int(clock.now)
    OpenAI(api_key="none").webhooks.verify_signature(body, headers, secret=secret)
    assert (headers["content-type"], headers["host"]) == ("application/json", f"hooks.example:{receiver.port}")
    assert message_of(store).state is MessageState.DELIVERED and message_of(store).log[0].status == 200
    for other in (secrets_of(store, "berta")[0], new_secret()):
        with pytest.raises(WebhookVerificationError):
            Webhook(other).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body.replace(b"completed", b"failed"), headers)


def test_signatures_are_those_of_the_reference_library() -> None:
    secret, at = new_secret(), datetime(2026, 12, 1, 15, 30, tzinfo=UTC)
    headers = signed_headers("msg_1", int(at.timestamp()), b'{"a":"\xc3\xa4"}', [secret])
    assert headers["webhook-signature"] == Webhook(secret).sign("msg_1", at, '{"a":"ä"}')


def test_after_a_rotation_either_secret_verifies(receiver: Receiver, store: SqliteJobStore, clock: ManualClock) -> None:
    [old] = secrets_of(store)
    store.handle(RotateSecret("", new_secret(), 3600.0))
    completed(store, receiver.url)
    send_due(receiver.sender(store, clock))
    headers, body = receiver.came[0]
    for secret in secrets_of(store):
        Webhook(secret).verify(body, headers)
    clock.now += 3600.0
    store.handle(ReplayMessage("video_1", None))
    send_due(receiver.sender(store, clock))
    assert len(headers["webhook-signature"].split()) == 2
    [signature] = receiver.came[1][0]["webhook-signature"].split()
    assert old not in secrets_of(store) and signature not in headers["webhook-signature"]


def test_a_cancelled_video_has_failed(receiver: Receiver, store: SqliteJobStore, clock: ManualClock) -> None:
    store.handle(AddJob("video_1", "", JobSpec(None, False, 25.0, 8, webhook_url=receiver.url), 60.0))
    store.handle(CancelJob("video_1", None))
    send_due(receiver.sender(store, clock))
    said = json.loads(receiver.came[0][1])
    assert (said["type"], said["data"]["state"], said["data"]["error"]["code"]) == (
        "video.failed",
        "cancelled",
        "cancelled",
    )
    assert said["data"]["content_url"] is None


def test_a_receiver_that_fails_is_asked_again_for_a_day(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock
) -> None:
    began = clock.now
    completed(store, receiver.url)
    sender = receiver.sender(store, clock)
    receiver.answers.extend([(500, {})] * 100)
    for pause_s in PAUSES_S:
        assert send_due(sender) == 1
        found = message_of(store)
        assert found.due_at is not None and found.due_at - clock.now == pytest.approx(pause_s * (1 - JITTER / 2))
        assert send_due(sender) == 0
        clock.now = found.due_at
    assert send_due(sender) == 1
    assert message_of(store).state is MessageState.GIVEN_UP and len(message_of(store).log) == len(PAUSES_S) + 1
    assert 0.7 * DAY_S < clock.now - began <= DAY_S
    clock.now += 30 * DAY_S
    assert send_due(sender) == 0
    assert (
        len({headers["webhook-id"] for headers, _ in receiver.came}) == 1
        and len({body for _, body in receiver.came}) == 1
    )
    stamps = [int(headers["webhook-timestamp"]) for headers, _ in receiver.came]
    assert stamps == sorted(set(stamps)), "the time of the attempt is signed, so that a replay by others is seen"


def test_the_schedule_stays_within_a_day_and_is_shortened_at_random() -> None:
    assert 0.95 * DAY_S < sum(PAUSES_S) <= DAY_S
    for tries, pause_s in enumerate(PAUSES_S, 1):
        assert verdict(tries, 500, 0, 0.0) == (MessageState.WAITING, pause_s)
        assert pause_s * (1 - JITTER) <= verdict(tries, 0, 0, 0.999)[1] < pause_s


@pytest.mark.parametrize("status", [100, 301, 302, 307, 400, 404, 429, 500, 503])
def test_what_is_not_2xx_is_no_success(status: int) -> None:
    assert verdict(1, status, 0, 0)[0] is MessageState.WAITING


def test_what_the_receiver_says() -> None:
    assert [verdict(1, status, 0, 0)[0] for status in (200, 204, 299)] == [MessageState.DELIVERED] * 3
    assert verdict(1, 410, 0, 0)[0] is MessageState.GIVEN_UP
    assert verdict(1, 503, 120, 0)[1] == 120 and verdict(3, 429, 1, 0)[1] == PAUSES_S[2]
    assert verdict(1, 503, 1e9, 0)[1] == LONGEST_ASKED_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        (" 7 ", 7.0),
        ("9" * 40, 999_999_999_999.0),
        ("Fri, 15 Jan 2027 08:01:30 GMT", 90.0),
        ("Friday, 15-Jan-27 08:01:30 GMT", 90.0),
        ("Fri Jan 15 08:01:30 2027", 90.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 99 Jan 2027 08:01:30 GMT", 0.0),
        ("Fri, 15 Jan 99999999999999999999 08:01:30 GMT", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1e9", 0.0),
        ("\u0661", 0.0),
        ("", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float) -> None:
    assert asked_seconds(text, 1_800_000_000.0) == seconds


def test_retry_after_and_gone_are_heard(receiver: Receiver, store: SqliteJobStore, clock: ManualClock) -> None:
    completed(store, receiver.url)
    receiver.answers.extend([(503, {"Retry-After": "90"}), (429, {"Retry-After": "soon"}), (410, {})])
    sender = receiver.sender(store, clock)
    send_due(sender)
    assert message_of(store).due_at == clock.now + 90
    clock.now = message_of(store).due_at or 0
    receiver.answers.insert(0, (503, {"Retry-After": formatdate(clock.now + 4000, usegmt=True)}))
    send_due(sender)
    assert message_of(store).due_at == int(clock.now + 4000)
    for _ in range(2):
        clock.now = message_of(store).due_at or 0
        send_due(sender)
    assert message_of(store).state is MessageState.GIVEN_UP
    assert [one.status for one in message_of(store).log] == [503, 503, 429, 410]


def test_redirects_are_not_followed(receiver: Receiver, store: SqliteJobStore, clock: ManualClock) -> None:
    completed(store, receiver.url)
    receiver.answers.append((307, {"Location": receiver.url}))
    send_due(receiver.sender(store, clock))
    assert len(receiver.came) == 1 and message_of(store).log[0].note == "answered 307"


def test_a_silent_receiver_and_one_that_is_away(receiver: Receiver, store: SqliteJobStore, clock: ManualClock) -> None:
    completed(store, receiver.url)
    receiver.answers.append(None)
    send_due(receiver.sender(store, clock, answer_s=0.05))
    assert message_of(store).log[0].note == "no answer within 0.05 s" and message_of(store).log[0].status == 0
    completed(store, "http://hooks.example:9/hook", "video_2")
    away = Receiver(9)
    send_due(away.sender(store, clock))
    [found] = store.handle(ListMessages("video_2", None))
    assert found.log[0].note.startswith("no connection") and found.state is MessageState.WAITING


def test_receivers_that_never_answer_hold_up_their_own_messages_alone(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock
) -> None:
    for number in range(MOST_OF_OWNER + 2):
        completed(store, receiver.url, f"video_a{number}", "anna")
    receiver.answers.extend([None] * MOST_OF_OWNER)

    async def go() -> None:
        sender = receiver.sender(store, clock)
        silent = await sender.look()
        assert len(silent) == MOST_OF_OWNER
        await asyncio.to_thread(wait_for, lambda: len(receiver.came) == MOST_OF_OWNER)
        completed(store, receiver.url, "video_b", "berta")
        [other] = await sender.look()
        await other
        given_up = silent.pop()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        [next_one] = await sender.look()
        await next_one
        for task in silent:
            task.cancel()
        await asyncio.gather(*silent, return_exceptions=True)

    asyncio.run(go())
    states = {one: store.handle(ListMessages(one, None))[0].state for one in ("video_b", "video_a4", "video_a5")}
    assert list(states.values()) == [MessageState.DELIVERED, MessageState.DELIVERED, MessageState.WAITING]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_nothing_is_sent_into_the_own_network(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock, address: str
) -> None:
    completed(store, receiver.url)
    send_due(receiver.sender(store, clock, receiver.fetcher(address=address, networks=())))
    assert receiver.came == [] and message_of(store).log[0].note.startswith("url_refused")
    assert address not in message_of(store).log[0].note


def test_a_service_that_reaches_no_addresses_sends_none(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock
) -> None:
    completed(store, receiver.url)
    send_due(receiver.sender(store, clock, receiver.fetcher(enabled=False)))
    assert receiver.came == [] and "url_refused" in message_of(store).log[0].note


def test_a_sender_that_died_is_followed_by_another(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock
) -> None:
    completed(store, receiver.url)
    receiver.answers.append(None)

    async def die() -> None:
        [sending] = await receiver.sender(store, clock).look()
        await asyncio.to_thread(wait_for, lambda: receiver.came)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(die())
    sender = receiver.sender(store, clock)
    assert send_due(sender) == 0
    clock.now += LEASE_S
    assert send_due(sender) == 1 and message_of(store).state is MessageState.DELIVERED
    assert receiver.came[0][0]["webhook-id"] == receiver.came[1][0]["webhook-id"], (
        "a receiver can tell that it came twice"
    )


def test_a_store_that_is_away_ends_no_sender(
    receiver: Receiver, store: SqliteJobStore, clock: ManualClock, tmp_path: Path
) -> None:
    completed(store, receiver.url)
    (tmp_path / "jobs.sqlite3").rename(tmp_path / "away")

    async def go() -> None:
        running = asyncio.create_task(receiver.sender(store, clock).run())
        await asyncio.sleep(0.05)
        (tmp_path / "away").rename(tmp_path / "jobs.sqlite3")
        await asyncio.to_thread(wait_for, lambda: receiver.came)
        running.cancel()

    asyncio.run(go())
