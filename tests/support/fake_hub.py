"""A Hugging Face Hub of one repository on localhost, just enough for `snapshot_download`."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


@dataclass
class FakeHub:
    """What it serves, and the files that were asked for."""

    repo_id: str
    files: dict[str, bytes]
    endpoint: str = ""
    fetched: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of a GET."""
        path = path.split("?")[0]
        api = f"/api/models/{self.repo_id}"
        if path.startswith(f"{api}/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}  # noqa: S324
                for name, data in self.files.items()
            ]
            return 200, json.dumps(tree).encode(), {"Content-Type": "application/json"}
        if path.startswith(api):
            siblings = [{"rfilename": name} for name in self.files]
            info = {"id": self.repo_id, "sha": COMMIT, "siblings": siblings}
            return 200, json.dumps(info).encode(), {"Content-Type": "application/json"}
        name = path.removeprefix(f"/{self.repo_id}/resolve/{COMMIT}/")
        if name in self.files:
            etag = hashlib.sha1(self.files[name]).hexdigest()  # noqa: S324 - an ETag
            return 200, self.files[name], {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}
        return 404, b"", {}


@contextmanager
def serve_hub(repo_id: str, files: dict[str, bytes]) -> Iterator[FakeHub]:
    """Serve a repository while the block runs."""
    hub = FakeHub(repo_id, files)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

        def do_HEAD(self) -> None:
            self._respond(with_body=False)

        def do_GET(self) -> None:
            self._respond(with_body=True)

        def _respond(self, with_body: bool) -> None:
            status, body, headers = hub.answer(self.path)
            if with_body and "/resolve/" in self.path:
                hub.fetched.append(self.path.rsplit("/", 1)[1])
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
