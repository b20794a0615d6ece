"""A service that is told to end refuses what it could not finish, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_server import assert_problem, serving, wav


def test_nothing_new_begins_and_what_was_made_can_be_fetched(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.jobs.resting = True
        kept = served.client.post("/api/generate", files={"audio": wav(0.1)}).json()["url"]
        served.api.state.draining.begin()
        for path in ("/generate", "/api/generate", "/stream/webrtc/offer", "/stream/livekit"):
            answer = served.client.post(path, files={"audio": wav(0.1)})
            assert_problem(answer, 503, "draining")
            assert int(answer.headers["retry-after"]) > 0
        assert_problem(served.client.get("/readyz"), 503, "draining")
        for path in ("/healthz", "/avatars", kept, "/stream/webrtc/stats"):
            assert served.client.get(path).status_code == 200, path
        taken = served.client.post("/v1/videos", files={"audio": wav(0.1)})
        assert taken.status_code == 202, "kept, and made after the next start"
        assert served.client.get(taken.headers["location"]).json()["status"] == "queued"
