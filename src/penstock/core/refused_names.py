"""Makes modules and classes of the tables in `pyflink_names`.

A public module finds what it does not define itself with `__getattr__ = names_of(__name__)`.
Modules that would hold nothing else have no file: after `install()` Python's import finds them.
What is refused can be imported, used in annotations and passed on. A call of it, a subclass of it
or an attribute of it raises an error that says what to use instead.
"""

from __future__ import annotations
import __future__

import functools
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NoReturn, TypeVar

from penstock.core.errors import UnsupportedError
from penstock.core.pyflink_names import (
    HOMES,
    MOVED_MODULES,
    OF_TABLES,
    REFUSED,
    REFUSED_MODULES,
    SUBMODULES,
)

T = TypeVar("T")

_ROOT: Final = "penstock."
_MODULES: Final = (
    frozenset(REFUSED_MODULES)
    | MOVED_MODULES
    | {f"{root}.{name}" for root, names in SUBMODULES.items() for name in names.split()}
)
_HOME: Final = {name: home for home, names in HOMES.items() for name in names.split()}


def reason(name: str) -> str | None:
    """Returns why PyFlink's `name` is not there and what to use instead; None if nothing is said.

    What is said of a module or class is said of everything in it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        found = REFUSED.get(prefix) or REFUSED_MODULES.get(prefix)
        if found:
            return found
    for pattern, text in REFUSED.items():
        before, star, after = pattern.partition("*")
        if star and name.startswith(before) and name.endswith(after):
            return text
    return None


def names_of(module: str) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a public module; it also says what `import *` takes.

    That is what the module itself defines. A module that has names of others, too, lists all of
    them in `__all__`.
    """
    return functools.partial(_find, module.removeprefix(_ROOT))


def facade(module: str, also: str = "") -> Callable[[str], Any]:
    """Makes the `__getattr__` of a module all of whose imports are names that it offers.

    It writes them `import Name as Name`, which tells type checkers the same.

    Args:
        module: Its name.
        also: Names for `import *` that other modules have.
    """
    find = names_of(module)

    def offered(name: str) -> Any:
        if name != "__all__":
            return find(name)
        return [*also.split(), *filter(_is_offered, vars(sys.modules[module]))]

    def _is_offered(name: str) -> bool:
        value = vars(sys.modules[module])[name]
        own = value is facade or isinstance(value, ModuleType | __future__._Feature)
        return not (name.startswith("_") or own)

    return offered


def _find(path: str, name: str) -> Any:
    full = f"{path}.{name}"
    in_tables = path.startswith("table") and name in OF_TABLES
    if not name.startswith("_") and full not in _MODULES:
        home = _HOME.get(name)
        if home is not None and home != path and not in_tables:
            found = import_module(_ROOT + home)
            return found if name == home.rpartition(".")[2] else getattr(found, name)
        if reason(full) is not None:
            return _refused_class(path, name)
    if name == "__all__":
        return HOMES[path].split() if path in _MODULES else _defined_in(_ROOT + path)
    raise AttributeError(f"module '{_ROOT}{path}' has no attribute '{name}'")


def _defined_in(module: str) -> list[str]:
    """Returns what `import *` takes from a module that lists nothing."""
    names = vars(sys.modules[module])
    return [
        name
        for name, value in names.items()
        if name[0] != "_" and getattr(value, "__module__", None) == module
    ]


# -- what raises -----------------------------------------------------------------------------------


def _error(name: str, called: str) -> UnsupportedError:
    return UnsupportedError(f"{called} is not supported: {reason(name)}.")


def refused_method(name: str) -> Callable[..., NoReturn]:
    """Makes a method that says why it is not there."""
    called = ".".join(name.split(".")[-2:])
    assert reason(name), name

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise _error(name, f"{called}()")

    method.__name__ = name.rsplit(".", 1)[-1]
    method.__doc__ = f"Not supported: {reason(name)}."
    return method


def refuses_methods(kind: type[T]) -> type[T]:
    """Gives a class the methods that PyFlink's has and this one refuses, by the table."""
    path = f"{kind.__module__.removeprefix(_ROOT)}.{kind.__qualname__}."
    for name in REFUSED:
        if name.startswith(path):
            setattr(kind, name.removeprefix(path), refused_method(name))
    return kind


class _Refused(type):
    """A class of which nothing can be used: every use says why."""

    _name: str

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> _Refused:
        for base in bases:
            if isinstance(base, _Refused):
                raise _error(base._name, f"class {name}({base.__name__})")
        return super().__new__(cls, name, bases, space)

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise _error(cls._name, f"{cls.__name__}(...)")

    def __getattr__(cls, attribute: str) -> NoReturn:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        raise _error(cls._name, f"{cls.__name__}.{attribute}")

    def __getitem__(cls, _: object) -> type:
        return cls


@functools.cache
def _refused_class(path: str, name: str) -> type:
    full = f"{path}.{name}"
    space = {
        "_name": full,
        "__module__": _ROOT + path,
        "__doc__": f"Not supported: {reason(full)}.",
    }
    # `except TableException` needs an exception, though this one is never raised.
    bases = (Exception,) if name.endswith(("Exception", "Error")) else ()
    return _Refused(name, bases, space)


# -- modules without a file ------------------------------------------------------------------------


class _Modules(MetaPathFinder, Loader):
    """Finds modules of PyFlink that have no file here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT) or fullname.removeprefix(_ROOT) not in _MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__.removeprefix(_ROOT)
        vars(module)["__getattr__"] = names_of(module.__name__)
        module.__doc__ = f"Not supported: {reason(path)}." if reason(path) else "Moved."


def install() -> None:
    """Lets Python's import find the modules of the tables."""
    if not any(isinstance(each, _Modules) for each in sys.meta_path):
        sys.meta_path.append(_Modules())
