"""Shared fixtures. Tests find the packages from the root of the checkout and never use the person's own data folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

if not torch.cuda.is_available():
    # before anything imports triton: without a GPU its kernels run in the interpreter, on CPU tensors
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Before anything imports Ray, which reads the first once. Leftover threads of Ray Serve must never connect again after the tests
# have ended their cluster: Ray then ends the process without a word. And Ray must never write a token into the person's home.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_DASHBOARD_STARTUP_TIMEOUT_S"] = "300"

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # workers share the cores

# How fast an example is drawn or runs says something about the machine only. Continuous integration draws the same ones every time:
# what a new draw finds is a fault of its own, not of the change that it came with.
settings.register_profile(
    "liveanchor",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("LIVEANCHOR_REQUIRE_EXTRAS") == "1",
)
settings.load_profile("liveanchor")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the switch for tests that take long and say little more than their faster neighbours."""
    parser.addoption("--nightly", action="store_true", help="also run tests marked `nightly`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave nightly tests out unless they are asked for; skip GPU tests where there is no GPU."""
    if not config.getoption("--nightly"):
        slow = [item for item in items if "nightly" in item.keywords]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if "nightly" not in item.keywords]
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: bit-identical sums wherever the test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def logging_as_it_comes() -> Iterator[None]:
    """The command line configures logging for its process; a test of it must not do so for the others."""
    yield
    if (structlog := sys.modules.get("structlog")) is not None:
        structlog.reset_defaults()
