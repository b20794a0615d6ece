"""What the house forbids in its own sources, as pure functions over text: upward imports, circles, names of families."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

LAYERS = ("kernels", "engines", "pipeline", "deployments", "liveanchor", "serve_app")
FREE = ("training", "benchmarks")
FAMILY_FOLDERS = ("engines", "engines/networks", "pipeline")
FAMILY_TABLE = "pipeline/families.py"


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
    if package == "benchmarks":
        return {"tests"}
    if package == "training":
        return {"benchmarks", "tests"}
    return set(LAYERS[LAYERS.index(package) + 1 :]) | set(FREE) | {"tests"}


def violations(package: str, source: str) -> set[str]:
    """Packages that a module of `package` imports and may not."""
    return imported_packages(source) & forbidden_for(package)


def module_name(path: str) -> str:
    """Path from the root -> name: `a/b.py` and `a/b/__init__.py` -> `a.b`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def find_circle(sources: Mapping[str, str]) -> list[str]:
    """A circle of imports, each module importing the next; empty where there is none.

    Imports inside functions count, those under `if TYPE_CHECKING:` do not: they never run.

    Args:
        sources: Path from the root -> text.
    """
    known = {module_name(path) for path in sources}
    graph = {
        module_name(path): {name for name in _imported_modules(source, known) if name != module_name(path)}
        for path, source in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def family_names(path: str, source: str, families: Sequence[str]) -> list[str]:
    """Places where a module names a family that it may not know: `<line>: <what>`.

    A text that is a family's name or begins with it and a slash counts, and so does an import of a family's folder. A family's own
    folders may name it; the table may name all.

    Args:
        path: From the root, e.g. `pipeline/session/planner.py`.
        source: Its text.
        families: Their names.
    """
    if path == FAMILY_TABLE:
        return []
    strangers = [name for name in families if not any(path.startswith(f"{one}/{name}/") for one in FAMILY_FOLDERS)]
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if any(text == name or text.startswith(f"{name}/") for name in strangers) and " " not in text:
                found.append((node.lineno, repr(text)))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            folders = [f"{one}.{name}".replace("/", ".") for one in FAMILY_FOLDERS for name in strangers]
            found += [
                (node.lineno, f"import of {module}")
                for module in modules
                if any(f"{module}.".startswith(f"{folder}.") for folder in folders)
            ]
    return [f"{line}: {what}" for line, what in sorted(found)]


def _imported_modules(source: str, known: set[str]) -> Iterator[str]:
    for node in _running(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & known
            yield from names or ({node.module} & known)


def _running(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))
