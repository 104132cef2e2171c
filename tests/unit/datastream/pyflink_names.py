"""Lists PyFlink's public names, read from its source without running it.

    python tests/unit/datastream/pyflink_names.py SITE_PACKAGES/pyflink > .../pyflink_names.txt

writes one line a name: `common.time.Time.seconds(seconds)`. Arguments that only take Java objects
are left out, and so are names with an underscore; `__init__` stands for how a class is called.

    python .../pyflink_names.py --imports pyflink-1.12/pyflink ... > .../pyflink_imports.txt

writes one line a module: what a program can import from it, whether it is defined there or imported
from another module of PyFlink, in any of the versions given.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("common", "datastream", "metrics")


def names(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root).with_suffix("")
            if "tests" in relative.parts:
                continue
            module = ".".join(part for part in relative.parts if part != "__init__")
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield module
            if path.name == "__init__.py":
                yield from (f"{module}.{name}" for name in listed(tree))
            else:
                yield from members(tree, module)


def listed(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def members(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    seen = set()
    for node in tree.body:
        match node:
            case ast.ClassDef() if not node.name.startswith("_"):
                yield f"{prefix}.{node.name}"
                yield from members(node, f"{prefix}.{node.name}")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if any("overload" in ast.unparse(each) for each in node.decorator_list):
                    continue
                if node.name in seen or (node.name.startswith("_") and node.name != "__init__"):
                    continue
                seen.add(node.name)
                yield f"{prefix}.{node.name}({', '.join(arguments(node))})"
            case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(tree, ast.ClassDef):
                if not name.startswith("_"):
                    yield f"{prefix}.{name}"


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    found = [each.arg for each in given.posonlyargs + given.args + given.kwonlyargs]
    if given.vararg:
        found.append(f"*{given.vararg.arg}")
    return [name for name in found if name not in ("self", "cls") and not name.startswith("j_")]


def importable(root: Path) -> Iterator[tuple[str, set[str]]]:
    """Every module of PyFlink, with the names that a program can import from it."""
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root).with_suffix("")
        if {"tests", "examples", "testing"} & set(relative.parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = set(listed(tree))
        for node in tree.body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    found.add(name)
                case ast.Assign(targets=targets):
                    found.update(each.id for each in targets if isinstance(each, ast.Name))
                case ast.ImportFrom(module=module) if (module or "").startswith("pyflink"):
                    found.update(each.asname or each.name for each in node.names)
        module = ".".join(part for part in relative.parts if part != "__init__")
        yield module, {name for name in found if name[0] not in "_*"}


def imports(roots: list[Path]) -> Iterator[str]:
    together: dict[str, set[str]] = {}
    for root in roots:
        for module, found in importable(root):
            together.setdefault(module, set()).update(found)
    for module in sorted(together):
        if module:
            yield f"{module}: {' '.join(sorted(together[module]))}".rstrip()


if __name__ == "__main__":
    if sys.argv[1] == "--imports":
        print("\n".join(imports([Path(each) for each in sys.argv[2:]])))
    else:
        print("\n".join(sorted(names(Path(sys.argv[1])))))
