"""Prints what `pip install 'liveanchor[EXTRA,...]'` would ask for besides LiveAnchor itself.

Usage: python deploy/requirements.py EXTRA ... > requirements.txt

An image installs this first, in a layer of its own, so that a change of our code does not fetch 3 GB again.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

OWN = re.compile(r"liveanchor\[([a-z0-9,-]+)\]")


def requirements(pyproject: str, extras: Sequence[str]) -> list[str]:
    """Requirements of the project with these extras, extras of extras included, in the order of the file, each once.

    Args:
        pyproject: Text of pyproject.toml.
        extras: Names of extras.

    Raises:
        KeyError: There is no such extra.
    """
    project = tomllib.loads(pyproject)["project"]
    found, waiting, seen = list(project["dependencies"]), list(extras), set[str]()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for one in project["optional-dependencies"][extra]:
            if match := OWN.fullmatch(one):
                waiting += match[1].split(",")
            else:
                found.append(one)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write("\n".join(requirements(text, sys.argv[1:])) + "\n")
