"""Imports go one way, and importing the pipeline stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pipeline.families import FAMILIES
from tests.support.source_rules import FREE, LAYERS, family_names, find_circle, violations

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("ray", "tensorrt", "tensorrt_rtx", "triton")
NAMES = (*FAMILIES, "musetalk")
ALLOWED_NAMES = {
    "engines/networks/rife/__init__.py": "RIFE has a small network that is called mini, too",
    "engines/networks/rife/ifnet.py": "RIFE has a small network that is called mini, too",
    "pipeline/config.py": "RIFE has a small network that is called mini, too",
}
"""Files that may hold a family's name for another reason."""


@cache
def sources(*packages: str) -> dict[str, str]:
    """Path from the root -> text."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("package", (*LAYERS, *FREE))
def test_imports_go_one_way(package: str) -> None:
    wrong = {path: bad for path, source in sources(package).items() if (bad := violations(package, source))}
    assert not wrong, f"imports against the order {' < '.join((*LAYERS, *FREE, 'tests'))}: {wrong}"


def test_nothing_imports_itself_by_a_detour() -> None:
    circle = find_circle(sources(*LAYERS, *FREE))
    assert not circle, f"a circle of imports: {' -> '.join(circle)}"


def test_only_the_families_and_their_table_name_a_family() -> None:
    wrong = {
        path: found
        for path, source in sources(*LAYERS).items()
        if path not in ALLOWED_NAMES and (found := family_names(path, source, NAMES))
    }
    assert not wrong, f"ask the family's object instead (pipeline/family.py): {wrong}"


def test_the_exceptions_are_needed() -> None:
    assert [path for path in ALLOWED_NAMES if not family_names(path, sources(*LAYERS)[path], NAMES)] == []


def test_a_wrong_import_is_caught() -> None:
    assert violations("kernels", "def f():\n    from pipeline.types import Avatar\n") == {"pipeline"}
    assert violations("pipeline", "import serve_app.cli\nimport kernels") == {"serve_app"}
    assert violations("engines", "import training.export") == {"training"}
    assert violations("deployments", "from tests.support import live") == {"tests"}
    assert violations("deployments", "import liveanchor.client") == {"liveanchor"}
    assert violations("benchmarks", "def f():\n    from tests.golden.support import warped") == {"tests"}
    assert violations("training", "from benchmarks.core import record") == {"benchmarks"}
    assert violations("benchmarks", "import serve_app, training.phones, testsuite") == set()
    assert violations("serve_app", "import pipeline, deployments") == set()


def test_a_circle_is_caught() -> None:
    straight = {"a/x.py": "from a.y import f", "a/y.py": "import a.z", "a/z.py": "import numpy", "a/__init__.py": ""}
    assert find_circle(straight) == []
    assert set(find_circle(straight | {"a/z.py": "import a.x"})) == {"a.x", "a.y", "a.z"}
    assert set(find_circle(straight | {"a/z.py": "def f():\n    from a import x"})) == {"a.x", "a.y", "a.z"}
    assert set(find_circle(straight | {"a/y.py": "class C:\n    def f(self):\n        import a.x"})) == {"a.x", "a.y"}
    typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.x import f\n"
    assert find_circle(straight | {"a/z.py": typing}) == []
    assert find_circle(straight | {"a/z.py": typing + "else:\n    import a.x"}) != []
    assert find_circle({"a/__init__.py": "from a.x import f", "a/x.py": "from a import y", "a/y.py": ""}) == []


def test_a_name_of_a_family_is_caught() -> None:
    def found(path: str, source: str) -> list[str]:
        return family_names(path, source, ("mini", "ditto"))

    anywhere = "pipeline/session/planner.py"
    assert found(anywhere, 'x = 1\nif family == "ditto":\n    pass') == ["2: 'ditto'"]
    assert found(anywhere, 'def f(family: str = "mini") -> None: ...') == ["1: 'mini'"]
    assert found(anywhere, 'build(f"ditto/{name}")') == ["1: 'ditto/'"]
    assert found(anywhere, "def f():\n    from pipeline.mini import load") == ["2: import of pipeline.mini"]
    assert found(anywhere, "import engines.networks.ditto.decoder") == ["1: import of engines.networks.ditto.decoder"]
    assert found(anywhere, 'print("as in the family ditto")\nx = "minimum"\nimport pipeline.minimal') == []
    assert found("pipeline/mini/load.py", 'FAMILY = "mini"\nimport engines.mini.rig') == []
    assert found("pipeline/mini/load.py", 'OTHER = "ditto"') == ["1: 'ditto'"]
    assert found("pipeline/families.py", 'FAMILIES = {"mini": "pipeline.mini.family"}') == []


def test_no_relative_imports_hide_a_direction() -> None:
    relative = [
        str(path.relative_to(ROOT))
        for package in LAYERS
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert not relative


def test_importing_every_pipeline_module_loads_no_heavy_package() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "pipeline").rglob("*.py"))
    ]
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\n"
        f"for name in {modules!r}:\n    __import__(name)\n"
        f"print(','.join(sorted(m for m in {HEAVY!r} if m in sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "", f"importing pipeline loads {done.stdout.strip()}"


def test_kernels_is_ours_and_the_hub_package_of_that_name_is_absent() -> None:
    from importlib import metadata

    import kernels

    assert Path(kernels.__file__).resolve().parent == ROOT / "kernels"
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("kernels")


def test_no_file_is_longer_than_500_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for package in (*LAYERS, *FREE, "tests")
        for path in (ROOT / package).rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long
