"""A cluster that is gone is found out within seconds: RAY_ADDRESS and the file that a crash leaves behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.serve")

import ray
from ray._private import services

from kernels.errors import InvalidInputError
from serve_app.cli import diagnosis
from serve_app.cluster import address as cluster_address
from serve_app.cluster.address import Address, answers, find_address, listens, speaks_grpc
from serve_app.cluster.errors import ServiceFailedError
from serve_app.cluster.own import connected, free_port
from serve_app.cluster.signals import sigterm_kept


@pytest.fixture(autouse=True)
def ray_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Ray's temporary folder, on a machine where no head runs and no variable names one."""

    def no_heads() -> frozenset[str]:
        return frozenset()

    no_heads.cache_clear = lambda: None  # type: ignore[attr-defined]  # as Ray's own function has it
    monkeypatch.setattr(services, "find_gcs_addresses", no_heads)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray"


@pytest.fixture
def ray_init(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Calls of `ray.init`, which fail as in front of a cluster of another version."""
    calls: list[dict[str, Any]] = []

    def init(**options: Any) -> None:
        calls.append(options)
        raise RuntimeError("Version mismatch: the cluster was started with Ray 2.9\nand a trace")

    monkeypatch.setattr(ray, "init", init)
    return calls


def remember(folder: Path, address: str) -> None:
    (folder / "ray_current_cluster").write_text(address, encoding="utf-8")


@contextmanager
def listener() -> Iterator[int]:
    """The port of a program that takes connections and says nothing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_nothing_is_found_where_nothing_is_named_or_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_address() is None
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert find_address() is None


def test_what_ray_remembers_is_found(ray_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(ray_folder, "10.1.2.3:6379\n")
    assert find_address() == Address("10.1.2.3:6379", named=False)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert find_address() == Address("10.1.2.3:6379", named=False)
    monkeypatch.setenv("RAY_ADDRESS", "local")  # Ray starts a cluster for this word
    assert find_address() is None


@pytest.mark.parametrize("written", ["", "10.1.2.3", "\x00\x00"])
def test_half_an_address_is_none(ray_folder: Path, written: str) -> None:
    """A disk that was full, or a crash while Ray wrote it down."""
    remember(ray_folder, written)
    assert find_address() is None


@pytest.mark.parametrize(
    ("named", "target", "host", "port"),
    [
        ("10.0.0.1:6379", "10.0.0.1:6379", "10.0.0.1", 6379),
        ("head.example:6379", "head.example:6379", "head.example", 6379),
        ("[fd00::1]:6379", "[fd00::1]:6379", "fd00::1", 6379),
        ("ray://head.example:10001", "head.example:10001", "head.example", 10001),
        ("ray://[fd00::1]:10001/", "[fd00::1]:10001", "fd00::1", 10001),
    ],
)
def test_ray_address_wins(
    ray_folder: Path, monkeypatch: pytest.MonkeyPatch, named: str, target: str, host: str, port: int
) -> None:
    remember(ray_folder, "10.1.2.3:6379")
    monkeypatch.setenv("RAY_ADDRESS", named)
    found = find_address()
    assert found == Address(target, named=True)
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize(
    "named",
    ["head", "head:", ":6379", "head:x", "head:0", "head:65536", "fd00::1:6379", "ray://head", "http://head:8265"],
)
def test_what_is_no_address_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    with pytest.raises(InvalidInputError) as refused:
        find_address()
    assert refused.value.field == "RAY_ADDRESS" and refused.value.got == named


def test_a_named_cluster_that_is_gone_is_an_error(
    monkeypatch: pytest.MonkeyPatch, ray_init: list[dict[str, Any]]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head.example:6399")
    asked: list[Address] = []

    def probe(address: Address) -> bool:
        asked.append(address)
        return False

    with pytest.raises(ServiceFailedError, match=r"RAY_ADDRESS is head\.example:6399, and no Ray answers"):
        connected(probe).__enter__()
    assert asked == [Address("head.example:6399", named=True)] and not ray_init


def test_a_remembered_cluster_that_is_gone_counts_as_none_and_is_logged(
    ray_folder: Path, ray_init: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(ray_folder, "10.1.2.3:6379")
    said: list[dict[str, Any]] = []

    class Log:
        def warning(self, event: str, **fields: Any) -> None:
            said.append({"event": event, **fields})

    monkeypatch.setattr("serve_app.cluster.own._log", Log())
    with connected(lambda address: False) as cluster:
        assert cluster is None
    assert not ray_init
    [line] = said
    assert line["address"] == "10.1.2.3:6379" and "gone" in line["event"]


def test_a_cluster_that_answers_is_left_to_ray(ray_folder: Path, ray_init: list[dict[str, Any]]) -> None:
    remember(ray_folder, "10.1.2.3:6379")
    with pytest.raises(ServiceFailedError, match=r"10\.1\.2\.3:6379: Version mismatch.*2\.9$"):
        connected(lambda address: True).__enter__()
    assert [call["address"] for call in ray_init] == ["auto"]


def test_a_port_where_nobody_listens_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as port:
        assert listens(Address(f"127.0.0.1:{port}", named=True))
    assert not listens(Address(f"127.0.0.1:{port}", named=True))

    def no_such_host(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", no_such_host)
    assert not listens(Address("nowhere.invalid:6379", named=True))


def test_a_program_that_is_no_ray_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_address, "GREET_S", 0.05)
    with listener() as port:
        assert not speaks_grpc(Address(f"127.0.0.1:{port}", named=True))


def test_a_grpc_server_is_taken_for_ray() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc  # type: ignore[import-untyped]

    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            assert answers(Address(f"127.0.0.1:{port}", named=True))
        finally:
            server.stop(None).wait()


@pytest.mark.parametrize(("there", "ray_there", "asked"), [(False, True, 0), (True, False, 1), (True, True, 1)])
def test_the_protocol_is_asked_only_where_somebody_listens(there: bool, ray_there: bool, asked: int) -> None:
    times: list[Address] = []

    def speaks(address: Address) -> bool:
        times.append(address)
        return ray_there

    assert answers(Address("h:1", named=True), lambda address: there, speaks) is (there and ray_there)
    assert len(times) == asked


def test_sigterm_does_what_it_did_before_ray_connected() -> None:
    def ours(*_: object) -> None: ...

    def theirs(*_: object) -> None: ...

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(ConnectionError), sigterm_kept():
            signal.signal(signal.SIGTERM, theirs)
            raise ConnectionError
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("named", "remembered", "there", "level", "said"),
    [
        ("", "", False, "ok", "none here"),
        ("", "10.1.2.3:6379", True, "ok", "10.1.2.3:6379 answers"),
        ("", "10.1.2.3:6379", False, "optional", "Ray remembers"),
        ("head:6399", "", False, "missing", "RAY_ADDRESS names"),
        ("head", "", False, "missing", "RAY_ADDRESS: got head"),
    ],
)
def test_doctor_says_whether_a_cluster_answers(
    ray_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    remembered: str,
    there: bool,
    level: str,
    said: str,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    if remembered:
        remember(ray_folder, remembered)
    monkeypatch.setattr(cluster_address, "answers", lambda address: there)
    finding = diagnosis._ray_cluster()
    assert finding.level == level and said in finding.found
    assert (level == "ok") is (finding.advice == "")


def test_ray_really_ends_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Ray's own functions and a real port; Ray alone would try for more than three minutes."""
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    code = "from serve_app.cluster.own import connected\nconnected().__enter__()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 1 and "and no Ray answers there" in ended.stderr
