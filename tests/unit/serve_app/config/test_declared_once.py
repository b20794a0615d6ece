"""A default is written once; groups of settings are handed on, not copied field by field."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
LAYERS = ("pipeline", "deployments", "serve_app")
APART = {
    "chunk_frames": "a file and a live session are cut differently",
    "max_bytes": "of a sound file and of a picture",
    "retry_after_s": "of the ingress's own 503 and of Ray Serve's",
    "stage_call_s": "of a file job and of a live session",
    "threads": "of libx264 and of torch",
    "audio_features": "a stage's batches and its placement",
    "motion_diffusion": "a stage's batches and its placement",
    "renderer": "a stage's batches and its placement",
    "rife": "a stage's batches and its placement",
}
"""Names that operators use for two things each, one in every group; why they are two."""


def is_settings(node: ast.ClassDef) -> bool:
    """A pydantic group by its base, a dataclass by its name."""
    bases = [ast.unparse(base) for base in node.bases]
    return any(base.endswith("Settings") for base in bases) or node.name.endswith(("Settings", "Limits"))


def own_default(value: ast.expr | None) -> bool:
    """Whether a value is written here: not required, not None, not a name of another place, not a group with its own defaults."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "Field":
        named = [keyword.value for keyword in value.keywords if keyword.arg in ("default", "default_factory")]
        value = next(iter([*value.args, *named]), None)
    if value is None or isinstance(value, ast.Attribute | ast.Name):
        return False
    if isinstance(value, ast.Constant) and value.value is None:
        return False
    return not (isinstance(value, ast.Call) and not value.args and not value.keywords)


def declared(source: str) -> Iterator[tuple[str, str]]:
    """(setting, class) of every default that a module writes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and is_settings(node):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and own_default(line.value):
                    yield line.target.id, node.name


def more_than_once(sources: dict[str, str]) -> dict[str, list[str]]:
    """Settings whose default several classes write."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for setting, name in declared(source):
            places.setdefault(setting, []).append(f"{path}:{name}")
    return {setting: found for setting, found in places.items() if len(found) > 1}


def test_every_default_is_written_once() -> None:
    sources = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
    }
    again = more_than_once(sources)
    assert {setting: found for setting, found in again.items() if setting not in APART} == {}
    assert set(again) == set(APART), "a name that is no longer used twice leaves the list"
    assert max(map(len, again.values())) == 2


@pytest.mark.parametrize(
    ("second", "counts"),
    [
        ("class B(Settings):\n    max_jobs: int = Field(16, ge=1)", True),
        ("class B(Settings):\n    max_jobs: int = Field(default=8)", True),
        ("class BLimits:\n    max_jobs: int = 16", True),
        ("class B(Settings):\n    max_jobs: BatchSettings = BatchSettings(max_size=4)", True),
        ("class B(Settings):\n    max_jobs: int = Field(ge=1)", False),
        ("class B(Settings):\n    max_jobs: int", False),
        ("class B(Settings):\n    max_jobs: int = Field(A.max_jobs, ge=1)", False),
        ("class B(Settings):\n    max_jobs: LimitSettings = LimitSettings()", False),
        ("class B:\n    max_jobs: int = 16", False),
    ],
)
def test_the_count_sees_a_second_default(second: str, counts: bool) -> None:
    first = "class A(Settings):\n    max_jobs: int = Field(16, ge=1, description='Jobs.')"
    assert bool(more_than_once({"a": first, "b": second})) is counts
