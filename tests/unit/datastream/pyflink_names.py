"""Writes `pyflink_names.txt`: PyFlink's public names, read from its source without running it.

    python tests/unit/datastream/pyflink_names.py SITE_PACKAGES/pyflink > .../pyflink_names.txt

One line a name: `common.time.Time.seconds(seconds)`. Arguments that only take Java objects are left
out, and so are names with an underscore; `__init__` stands for how a class is called.
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


if __name__ == "__main__":
    print("\n".join(sorted(names(Path(sys.argv[1])))))
