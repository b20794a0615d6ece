"""The table of kinds of faults names tests that exist."""

from __future__ import annotations

import ast
import re

from tests.support.paths import ROOT

ROW = re.compile(r"`([\w/]*(?:\.py)?)::(test_\w+)`")


def named() -> list[tuple[str, str]]:
    """(file below `tests/`, test) of the table, in order; a name without a file is of the file before it."""
    found, file = [], ""
    for cell, test in ROW.findall((ROOT / "docs" / "faults.md").read_text(encoding="utf-8")):
        file = cell or file
        found.append((file, test))
    return found


def test_every_test_of_the_table_exists_and_runs_by_default() -> None:
    for file, test in named():
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        [function] = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == test] or [None]
        assert function is not None, f"{file} has no {test}"
        assert not any("nightly" in ast.unparse(one) for one in function.decorator_list), (
            f"{test} does not run by default"
        )


def test_every_kind_names_at_least_two_and_something_of_each() -> None:
    rows = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    kinds = [row for row in rows if row.startswith("| ") and "::test_" in row]
    assert len(kinds) >= 17 and len(named()) == sum(row.count("::test_") for row in kinds)
    for row in kinds:
        assert row.count("::test_") >= 2 and len(row.split("|")) == 5 and len(row.split("|")[3]) > 20, row[:60]
