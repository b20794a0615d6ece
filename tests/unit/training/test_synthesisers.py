import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from training import synthesisers
from training.espeak import EVENT_OFFSET_S, Espeak, _phones
from training.phones import SILENCE
from training.synthesisers import Tools, locate, unpack
from training.utterance import SynthesisError, to_16k


def deb(members: dict[str, bytes]) -> bytes:
    payload = io.BytesIO()
    with tarfile.open(fileobj=payload, mode="w:xz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    out = b"!<arch>\n"
    for name, data in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"x"), ("data.tar.xz", payload.getvalue())):
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def packages(folder: Path) -> Path:
    kept = folder / "packages"
    kept.mkdir(parents=True)
    (kept / "flite_1_amd64.deb").write_bytes(
        deb({"usr/bin/flite": b"program", "usr/lib/x86_64-linux-gnu/libflite.so.1": b"lib", "usr/share/doc/x": b"no"})
    )
    with zipfile.ZipFile(kept / "espeakng_loader-1.whl", "w") as wheel:
        wheel.writestr("espeakng_loader/libespeak-ng.so.1", b"lib")
        wheel.writestr("espeakng_loader/espeak-ng-data/phontab", b"data")
        wheel.writestr("other/file", b"no")
    return folder


def test_unpack_takes_what_is_needed_and_runs_once(tmp_path: Path) -> None:
    folder = packages(tmp_path)
    root = unpack(folder)
    assert (root / "usr/bin/flite").read_bytes() == b"program"
    assert (root / "usr/bin/flite").stat().st_mode & 0o100
    assert not (root / "usr/share").exists()
    assert not (root / "other").exists()
    (root / "usr/bin/flite").write_bytes(b"touched")
    assert (unpack(folder) / "usr/bin/flite").read_bytes() == b"touched"


def test_locate_gives_paths_and_a_clean_environment(tmp_path: Path) -> None:
    tools = locate(packages(tmp_path))
    assert tools.espeak_data is not None
    assert (tools.espeak_data / "phontab").exists()
    assert str(tmp_path) in tools.environment()["LD_LIBRARY_PATH"]
    assert "HOME" not in tools.environment()


def test_errors_say_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages").mkdir()
    with pytest.raises(SynthesisError, match="training.synthesisers fetch"):
        locate(tmp_path)
    (tmp_path / "packages" / "bad_1.deb").write_bytes(b"!<arch>\n")
    with pytest.raises(SynthesisError, match=r"bad_1\.deb is not a Debian package"):
        unpack(tmp_path)
    monkeypatch.setattr(synthesisers.shutil, "which", lambda _: None)
    with pytest.raises(SynthesisError, match="training.synthesisers fetch"):
        locate(tmp_path / "nowhere")


def test_missing_library_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="cannot load"):
        Espeak(Tools(tmp_path / "none.so", None, tmp_path / "flite"))


def test_voiceless_stops_get_their_silent_closure() -> None:
    rate = 22050
    pcm = np.full(rate, 8000, np.int16)
    pcm[int(0.455 * rate) : int(0.5 * rate)] = 0  # the closure, before the stamp of /p/
    phones = _phones([(0, "ɑː"), (500, "p"), (530, "ɑː"), (1000, "")], pcm, rate)
    (stop,) = [p for p in phones if p.symbol == "p"]
    assert stop.start_s == pytest.approx(0.455, abs=0.002)
    assert stop.end_s == pytest.approx(0.530 + EVENT_OFFSET_S, abs=1e-6)


def test_short_nameless_events_are_not_pauses_and_long_ones_are() -> None:
    pcm = np.full(22050, 8000, np.int16)
    phones = _phones([(0, "ɑː"), (300, ""), (330, "n"), (400, ""), (600, "(en)"), (600, "ɑː")], pcm, 22050)
    assert [p.symbol for p in phones] == ["ɑ", "n", SILENCE, "ɑ"]
    assert phones[0].end_s == phones[1].start_s == pytest.approx(0.330 + EVENT_OFFSET_S)


def test_resampling_keeps_time() -> None:
    audio = np.zeros(22050, np.float32)
    audio[11025] = 1.0
    out = to_16k(audio, 22050)
    assert len(out) == 16000
    assert int(np.abs(out).argmax()) == 8000
    assert to_16k(np.zeros(0, np.float32), 8000).shape == (0,)
