"""The public packages say what they offer, and offer what they say."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import penstock
from penstock.core.errors import UnsupportedError

PUBLIC = ("common", "datastream", "metrics", "snapshots")
PACKAGES = [importlib.import_module(f"penstock.{name}") for name in PUBLIC]
MODULES = [
    importlib.import_module(found.name)
    for package in PACKAGES
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
] + PACKAGES


def listed(module: Any) -> list[str]:
    """What `import *` takes; of a module inside a package, which has no list, what it defines."""
    names: list[str] | None = getattr(module, "__all__", None)
    if names is not None:
        return names
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
    ]


def own_classes() -> list[type]:
    found = {
        getattr(module, name)
        for module in MODULES
        for name in listed(module)
        if inspect.isclass(getattr(module, name))
    }
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_listed_names_exist(module: Any) -> None:
    assert len(set(listed(module))) == len(listed(module))
    for name in listed(module):
        assert hasattr(module, name), name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_modules_list_what_is_theirs(module: Any) -> None:
    """Whatever a module itself defines under a public name is listed."""
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }
    helpers = {name for name in own if inspect.isfunction(getattr(module, name))}
    assert own - helpers <= set(listed(module)) | INTERNAL


INTERNAL = {
    # What others are made of; programs meet their subclasses.
    "EnvironmentSettings",
    "FieldAggregates",
    "FinalReduce",
    "IntervalBounds",
    "PairedByKeys",
    "PairedByOneKey",
    "RunningJob",
    "StreamSettings",
    "WindowSettings",
    "WindowedPairs",
}


@pytest.mark.parametrize(
    "kind", own_classes(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}"
)
def test_public_classes_are_documented(kind: type) -> None:
    if issubclass(kind, UnsupportedError):
        return
    assert kind.__doc__, "a public class says what it is"


def test_star_imports() -> None:
    space: dict[str, Any] = {}
    for name in PUBLIC:
        exec(f"from penstock.{name} import *", space)
    for name in ("Types", "Row", "StreamExecutionEnvironment", "KeyedProcessFunction", "Counter"):
        assert name in space


def test_version_is_that_of_the_project() -> None:
    from importlib.metadata import version

    assert penstock.__version__ == version("penstock")
