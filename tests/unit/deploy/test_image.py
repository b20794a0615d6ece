"""The Dockerfile: linted, its files exist and are let through, its targets run without rights; and its install steps run here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.require import missing

sys.path.insert(0, str(ROOT / "deploy"))
from requirements import requirements  # type: ignore[import-not-found]  # a script of the image, in no package
from sbom import RUNTIME  # type: ignore[import-not-found]

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)


def stages() -> dict[str, list[str]]:
    """Name of each stage -> its instructions, one a line."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.M))
    found: dict[str, list[str]] = {}
    for line in (one.strip() for one in joined.splitlines()):
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            found[match[2]] = [line]
        elif line and found:
            found[list(found)[-1]].append(re.sub(r"\s+", " ", line))
    return found


def test_the_linter_has_nothing_to_say() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        missing("EXTRAS", "hadolint is not installed: pip install 'liveanchor[dev]'")
    done = subprocess.run([linter, ROOT / "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_package_of_ours_is_copied_and_let_through() -> None:
    copied = [words for line in stages()["wheel"] if line.startswith("COPY") for words in line.split()[1:-1]]
    packages = {one.removesuffix("*") for one in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= set(copied) and {"pyproject.toml", "LICENSE", "README.md"} <= set(copied)
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = copied + ["constraints.txt", "deploy/requirements.py"]
    assert all((ROOT / one).exists() for one in sources)
    assert all(any(fnmatch(one, pattern) for pattern in allowed) for one in sources), "the rest is ignored"


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_targets_run_without_rights_and_say_how_they_are(target: str) -> None:
    lines = stages()[target]
    user = lines.index("USER 10001:10001")
    assert not [line for line in lines[user:] if line.startswith(("RUN", "COPY", "ADD"))]
    assert any(line.startswith("HEALTHCHECK") and "/healthz" in line for line in lines)
    assert json.loads(lines[-1].removeprefix("CMD ")) == ["liveanchor", "serve", "--host", "0.0.0.0", "--port", "8000"]  # noqa: S104
    assert "EXPOSE 8000" in lines and any("weights" in line and "--from=weights" in line for line in lines)


def test_login_shells_find_the_environment_too(tmp_path: Path) -> None:
    """KubeRay before 1.4 runs `bash -lc "ray start ..."`: Debian's /etc/profile sets PATH anew, then reads /etc/profile.d/*.sh."""
    written = re.search(r"&& (echo [^&]*?) > /etc/profile\.d/\w+\.sh", " ".join(stages()["base"]))
    assert written is not None
    profile = tmp_path / "profile.sh"
    shell = ["/bin/bash", "-euo", "pipefail", "-c"]
    subprocess.run([*shell, f"{written[1]} > {profile}"], check=True, env={"PATH": "/while/building"})
    fresh = f"PATH=/usr/local/bin:/usr/bin:/bin; . {profile}; echo $PATH"
    done = subprocess.run([*shell, fresh], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin"


def test_packages_come_before_our_code_and_no_configuration_stays() -> None:
    for name in ("cpu-packages", "cuda-packages"):
        copied = " ".join(line for line in stages()[name] if line.startswith("COPY"))
        assert "pyproject.toml constraints.txt" in copied and "pipeline" not in copied
    for lines in stages().values():
        for line in lines:
            if "pip " in line and "--no-deps" not in line:
                assert "--mount=type=secret,id=pip_conf" in line
            assert not re.search(r"https?://(?!127\.0\.0\.1)", line), "no registry's address"


def test_requirements_follow_extras_of_extras() -> None:
    extras_table = '[project.optional-dependencies]\nx = ["liveanchor[y,z]", "b"]\ny = ["c"]\nz = ["b"]\n'
    text = f'[project]\ndependencies = ["a>=1"]\n{extras_table}'
    assert requirements(text, ["x"]) == ["a>=1", "b", "c"]
    with pytest.raises(KeyError):
        requirements(text, ["nosuch"])
    for name in ("cpu-packages", "cuda-packages"):
        command = next(line for line in stages()[name] if "requirements.py" in line and line.startswith("RUN"))
        extras = re.search(r"requirements\.py ([a-z0-9 -]+) >", command)
        assert extras is not None
        asked = requirements(PYPROJECT, extras[1].split())
        for package in ("ray[serve]", "aiortc", "livekit", "obstore", "redis", "c2pa-python", "opentelemetry-sdk"):
            assert any(one.startswith(f"{package}>=") for one in asked), f"{package} is promised in docs/"
        assert set(extras[1].split()) <= set(RUNTIME), "the bill of materials says what images install"
        assert ("triton>=3.3,<4" in asked) is (name == "cuda-packages")


@pytest.mark.nightly("builds and installs the wheel as the image does, and makes a video with it: half a minute")
def test_the_wheel_alone_makes_a_video(tmp_path: Path) -> None:
    wheels, home = tmp_path / "wheels", tmp_path / "home"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), "."]
    copy = tmp_path / "src"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    for name in filter(None, tracked):  # not in the checkout: setuptools leaves a build folder behind
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(build, cwd=copy, check=True, timeout=240)
    [wheel] = wheels.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, timeout=240)
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "others.pth").write_text(here + "\n")  # other people's packages, not the editable install of ours
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"LIVEANCHOR_HOME": str(home)}
    audio = tmp_path / "speech.wav"
    audio.write_bytes((ROOT / "docs" / "demo" / "speech.wav").read_bytes()[:40_044])
    command = [
        tmp_path / "venv" / "bin" / "liveanchor",
        "generate",
        "--local",
        "--audio",
        audio,
        "--out",
        tmp_path / "talk.mp4",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "talk.mp4").stat().st_size > 10_000
    where = "import pipeline, serve_app; print(pipeline.__file__); print(serve_app.__file__)"
    lines = subprocess.run(
        [python, "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    imported, served = lines.stdout.splitlines()
    assert imported.startswith(str(tmp_path)) and any(Path(served).with_name("web").glob("*.html"))
