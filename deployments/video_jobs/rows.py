"""Jobs as the stores hold them: columns of numbers and text, the larger parts as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from deployments.video_jobs.job import JobFailure, JobResult, JobSpec, JobState, VideoJob
from deployments.video_jobs.webhooks import Attempt, Message, MessageState

Part = TypeVar("Part", JobSpec, JobResult, JobFailure)


def job_of(row: Mapping[str, Any]) -> VideoJob:
    """Read a job.

    Args:
        row: Column -> value, numbers also as text; what is missing or None was never written.
    """
    result, failure = row.get("result"), row.get("failure")
    return VideoJob(
        job_id=row["id"],
        owner=row["owner"],
        state=JobState(row["state"]),
        spec=_part(JobSpec, row["spec"]),
        metadata=json.loads(row["metadata"]),
        keep_s=float(row["keep_s"]),
        created_at=float(row["created_at"]),
        started_at=_time(row.get("started_at")),
        ended_at=_time(row.get("ended_at")),
        attempt=int(row["attempt"]),
        done=int(row["done"]),
        total=int(row["total"]),
        place=int(row["place"]),
        result=None if result is None else _part(JobResult, result),
        failure=None if failure is None else _part(JobFailure, failure),
    )


def message_of(row: Mapping[str, Any]) -> Message:
    """Read a message; `row` as in `job_of`."""
    failure = row.get("failure")
    return Message(
        message_id=row["id"],
        job_id=row["job_id"],
        owner=row["owner"],
        url=row["url"],
        ended=JobState(row["ended"]),
        metadata=json.loads(row["metadata"]),
        failure=None if failure is None else _part(JobFailure, failure),
        created_at=float(row["created_at"]),
        state=MessageState(row["state"]),
        due_at=_time(row.get("due_at")),
        attempt=int(row["attempt"]),
        tries=int(row["tries"]),
        log=tuple(Attempt(one["at"], one["status"], one["note"]) for one in json.loads(row.get("log") or "[]")),
    )


def _part(kind: type[Part], text: str) -> Part:
    """A part of a job; what a newer version wrote besides is left out, so that one row never stops the others."""
    known = {one.name for one in fields(kind)}
    return kind(**{name: value for name, value in json.loads(text).items() if name in known})


def as_text(value: JobSpec | JobResult | JobFailure | Mapping[str, str]) -> str:
    """Write a part of a job for a column of text."""
    return json.dumps(dict(value) if isinstance(value, Mapping) else asdict(value), ensure_ascii=False)


def _time(value: object) -> float | None:
    return None if value is None else float(str(value))
