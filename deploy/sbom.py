"""Writes the bill of materials, CycloneDX 1.6: the packages that constraints.txt pins, and the weights that come with us.

Usage: python deploy/sbom.py > deploy/sbom.cdx.json, in an environment that has the packages: what needs what, and the licences, are
read from there. The same environment gives the same bytes: there is no time in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from requirements import requirements

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "engines" / "weights_data"
RUNTIME = ("serve", "live", "livekit", "speech", "onnx", "redis", "objects", "gpu", "musetalk", "c2pa", "tracing")
"""Extras that images install; what only the others need is marked as optional."""
EVERYTHING = (*RUNTIME, "tensorrt-rtx", "dev")
SPACE = uuid.UUID("8c2b8f1e-5d0f-4f5e-9f0a-6f1d1c9f2a77")


def pins(text: str) -> dict[str, str]:
    """Normalised name (PEP 503) -> version, of the text of a constraints file.

    Raises:
        ValueError: A line that pins nothing.
    """
    found = {}
    for line in (one.partition("#")[0].strip() for one in text.splitlines()):
        if not line:
            continue
        name, equals, version = line.partition("==")
        if not equals:
            raise ValueError(f"no pin: {line}")
        found[normal(name)] = version.strip()
    return dict(sorted(found.items()))


def normal(name: str) -> str:
    """A package's name as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def needs(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """What an installed package needs here with these extras, normalised, each with the extras that are asked of it."""
    try:
        asked = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return {}
    return together(asked, extras)


def together(asked: Iterable[str], extras: frozenset[str] = frozenset()) -> dict[str, frozenset[str]]:
    """Requirements whose markers hold here, by normalised name; extras of the same package are joined."""
    found: dict[str, frozenset[str]] = {}
    for one in map(Requirement, asked):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            found[normal(one.name)] = found.get(normal(one.name), frozenset()) | one.extras
    return found


def closure(asked: Iterable[str]) -> dict[str, frozenset[str]]:
    """All packages that requirements lead to, with the extras that are asked of each."""
    wanted: dict[str, frozenset[str]] = {}
    waiting = together(asked)
    while waiting:
        name, extras = waiting.popitem()
        if name in wanted and extras <= wanted[name]:
            continue
        wanted[name] = wanted.get(name, frozenset()) | extras
        for other, more in needs(name, wanted[name]).items():
            waiting[other] = waiting.get(other, frozenset()) | more
    return wanted


def licences(name: str) -> list[dict[str, Any]]:
    """The licence that an installed package names, in CycloneDX's form."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if expression := facts.get("License-Expression"):
        return [{"expression": expression}]
    classified = [one for one in facts.get_all("Classifier") or [] if one.startswith("License ::")]
    named = sorted({one.rpartition(":: ")[2] for one in classified} - {"OSI Approved"})
    short = str(facts.get("License") or "").strip()
    if not named and short and "\n" not in short and len(short) < 80:
        named = [short]
    return [{"license": {"name": one}} for one in named]


def weights() -> list[dict[str, Any]]:
    """The files of weights that our own package holds."""
    return [
        {
            "type": "machine-learning-model",
            "bom-ref": f"weights:{path.relative_to(WEIGHTS).as_posix()}",
            "name": path.relative_to(WEIGHTS).as_posix(),
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
            "licenses": [{"expression": "Apache-2.0"}],
        }
        for path in sorted(WEIGHTS.rglob("*.safetensors"))
    ]


def bill(constraints: str, pyproject: str) -> dict[str, Any]:
    """The document.

    Args:
        constraints: Text of constraints.txt.
        pyproject: Text of pyproject.toml.
    """
    pinned = pins(constraints)
    refs = {name: f"pkg:pypi/{name}@{version}" for name, version in pinned.items()}
    direct = requirements(pyproject, RUNTIME)
    wanted = closure(direct)
    extras = closure(requirements(pyproject, EVERYTHING))
    edges = {name: sorted(needs(name, extras.get(name, frozenset())).keys() & pinned.keys()) for name in pinned}
    version = re.search(r'^version = "(.+)"', pyproject, re.M)
    ours = f"pkg:pypi/liveanchor@{version[1] if version else '0'}"
    models = weights()
    components = [
        {"type": "library", "bom-ref": refs[name], "name": name, "version": pinned[name], "purl": refs[name]}
        | {"scope": "required" if name in wanted else "optional"}
        | ({"licenses": found} if (found := licences(name)) else {})
        for name in pinned
    ]
    top = {
        "ref": ours,
        "dependsOn": sorted(
            {refs[name] for name in together(direct) if name in pinned} | {one["bom-ref"] for one in models}
        ),
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": ours, "name": "liveanchor", "purl": ours}
            | {"version": ours.rpartition("@")[2], "licenses": [{"expression": "Apache-2.0"}]}
        },
        "components": components + models,
        "dependencies": [
            top,
            *({"ref": refs[name], "dependsOn": [refs[one] for one in edges[name]]} for name in pinned),
        ],
    }
    text = json.dumps(document, sort_keys=True)
    return document | {"serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, text)}"}


if __name__ == "__main__":
    read = [(ROOT / name).read_text(encoding="utf-8") for name in ("constraints.txt", "pyproject.toml")]
    sys.stdout.write(json.dumps(bill(*read), indent=1) + "\n")
