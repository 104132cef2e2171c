"""Names that are not here, and what to use instead: modules, classes and methods of PyFlink's.

Modules and classes are made of the tables in `pyflink_names`.

A public module finds what it does not define itself with `__getattr__ = names_of(__name__)`.
Modules that would hold nothing else have no file: after `install()` Python's import finds them.
What is refused can be imported, used in annotations and passed on. A call of it, a subclass of it
or an attribute of it raises an error that says what to use instead.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

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
_Method = TypeVar("_Method", bound=Callable[..., Any])

_ROOT: Final = "penstock."
_NOT_OFFERED: Final = ("_", "annotations", "facade")
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
        # Submodules that were imported are there, too.
        values = vars(sys.modules[module]).items()
        own = [name for name, value in values if not isinstance(value, ModuleType)]
        return also.split() + [name for name in own if not name.startswith(_NOT_OFFERED)]

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


# -- names that users expect on a stream or an environment, from PyFlink or PySpark ----------------


_KEYED: Final = "that is on keyed streams: key_by(...).{name}(...)"
_WINDOWED: Final = (
    "that is for windows: key_by(...).window(...).{name}(...), or window_all(...).{name}(...)"
)
_SQL: Final = (
    "do it in Spark, on the DataFrame that env.from_spark(...) is given; for single records there "
    "are map(...) and filter(...)"
)
_WRITE: Final = "write with sink_to(...), or to_spark(...) for Spark's formats"

_ON_STREAM: Final = {
    "window": _KEYED + ", or window_all(...) over all records",
    "count_window": _KEYED,
    "time_window": "use key_by(...).window(TumblingEventTimeWindows.of(...))",
    "reduce": _KEYED + ", or window_all(...).reduce(...) over all records",
    "sum": _KEYED,
    "min": _KEYED,
    "max": _KEYED,
    "min_by": _KEYED,
    "max_by": _KEYED,
    "interval_join": _KEYED,
    "apply": _WINDOWED,
    "aggregate": _WINDOWED,
    "allowed_lateness": _WINDOWED,
    "side_output_late_data": _WINDOWED,
    "trigger": _WINDOWED,
    "evictor": _WINDOWED,
    "group_by": "it is key_by(...) here",
    "where": "it is filter(...) here",
    "with_watermark": "it is assign_timestamps_and_watermarks(...) here",
    "foreach": "it is inspect(...) within a chain here, and add_sink(function) at its end",
    "foreach_batch": "it is to_spark(function) here",
    "union_all": "it is union(...) here",
    "union_by_name": "it is union(...) here",
    "select": _SQL,
    "with_column": _SQL,
    "agg": _SQL,
    "limit": "it is take(n) here, which runs the program and returns a list",
    "head": "it is take(n) here, which runs the program and returns a list",
    "distinct": "keep a ValueState by key: key_by(...).process(...)",
    "drop_duplicates": "keep a ValueState by key: key_by(...).process(...)",
    "to_pandas": "it is pandas.DataFrame(stream.execute_and_collect()) for a bounded stream",
    "write": _WRITE,
    "write_stream": _WRITE,
    "write_as_text": "write with sink_to(FileSink.for_row_format(...).build())",
    "write_as_csv": "write with FileSink.for_bulk_format(path, BulkWriterFactory.csv(...)).build()",
    "collect": "it is execute_and_collect() here",
    "execute": "that is on the environment: env.execute()",
}
_READ: Final = (
    "read with from_source(FileSource.for_record_stream_format({format}, path).build(), ...)"
)
_SPARK: Final = "read it with Spark: env.from_spark(spark.read...), or spark.readStream"
_ON_ENVIRONMENT: Final = {
    "read_json": _READ.format(format="StreamFormat.json_line_format()"),
    "read_csv": _READ.format(format="StreamFormat.csv_format()"),
    "read_csv_file": _READ.format(format="StreamFormat.csv_format()"),
    "read_text": "it is read_text_file(path) here",
    "read_parquet": (
        "read with from_source(FileSource.for_bulk_file_format(BulkFormat.parquet_format(), path)"
        ".build(), ...)"
    ),
    "read": _SPARK,
    "read_stream": _SPARK,
    "sql": "make a DataFrame with spark.sql(...) and a stream of it with env.from_spark(...)",
    "table": "make a DataFrame with spark.table(...) and a stream of it with env.from_spark(...)",
    "create_data_frame": "it is from_collection(records) here",
    "create_dataframe": "it is from_collection(records) here",
    "from_elements": "it is from_collection([...]) here",
    "parallelize": "it is from_collection(records) here",
    "get_or_create": "it is StreamExecutionEnvironment.get_execution_environment() here",
    "stop": "end a job with its client: env.execute_async().cancel()",
    "map": "make a stream first, as with from_collection(records)",
    "key_by": "make a stream first, as with from_collection(records)",
}
_KEYED_ONLY: Final = {
    name: text for name, text in _ON_STREAM.items() if not text.startswith(_KEYED)
}
_TABLES: Final = {
    "DataStream": _ON_STREAM,
    "KeyedStream": _KEYED_ONLY,
    "StreamExecutionEnvironment": _ON_ENVIRONMENT,
}


def earlier_keywords(**today: str) -> Callable[[_Method], _Method]:
    """Lets a method take keywords by the names that they had in Flink 1."""

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **{today.get(name, name): kwargs[name] for name in kwargs})

        return cast("_Method", call)

    return decorate


class Hints:
    """Names the right method in the error for one that does not exist."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            text = f"{kind.__name__!r} object has no attribute {name!r}"
            snake = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
            hint = _TABLES.get(kind.__name__, {}).get(snake, "").format(name=snake)
            if snake != name and hasattr(kind, snake):
                hint = f"it is {snake}(...) here"
            raise AttributeError(f"{text}; {hint}." if hint else text, name=name, obj=self)
