"""Imports go one way, and importing the pipeline stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("kernels", "engines", "pipeline", "deployments", "serve_app")
FREE = ("training", "benchmarks")
HEAVY = ("ray", "tensorrt", "tensorrt_rtx", "triton")


def imported_packages(source: str) -> set[str]:
    """Top-level names that a module imports anywhere in its body."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def forbidden_for(package: str) -> set[str]:
    """Our packages that `package` may not import."""
    return (set(LAYERS[LAYERS.index(package) + 1 :]) | set(FREE)) if package in LAYERS else set()


def violations(package: str, source: str) -> set[str]:
    return imported_packages(source) & forbidden_for(package)


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_one_way(package: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): bad
        for path in sorted((ROOT / package).rglob("*.py"))
        if (bad := violations(package, path.read_text(encoding="utf-8")))
    }
    assert not wrong, f"imports against the order {' < '.join(LAYERS)}: {wrong}"


def test_the_check_itself_catches_a_wrong_import() -> None:
    assert violations("kernels", "def f():\n    from pipeline.types import Avatar\n") == {"pipeline"}
    assert violations("pipeline", "import serve_app.cli\nimport kernels") == {"serve_app"}
    assert violations("serve_app", "import pipeline, deployments") == set()


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
