"""The LiveKit plugin with LiveKit Agents' own classes, in an environment of its own that sees ours, too."""

from __future__ import annotations

import subprocess

import pytest

from benchmarks.agents.environment import ROOT, environment_python, variables

PACKAGE = "livekit-plugins-liveanchor"


@pytest.mark.nightly("installs LiveKit Agents, 400 MB, at the first run; `make livekit` runs it")
@pytest.mark.timeout(1200)
def test_the_plugin_s_own_tests_pass() -> None:
    python = environment_python(PACKAGE, "[test]", with_ours=True)
    folder = ROOT / "integrations" / PACKAGE / "tests"
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=variables(), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_the_plugin_s_versions_are_those_that_the_service_uses() -> None:
    pins = dict(line.split("==") for line in (ROOT / "integrations" / PACKAGE / "constraints.txt").read_text().split())
    ours = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"
    )
    assert pins["livekit_agents"].startswith("1.8.")
    for name in ("livekit", "protobuf", "numpy", "aiohttp"):
        assert pins[name] == ours[name], "both are in one process there"
