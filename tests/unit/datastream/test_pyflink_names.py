"""Every public name of PyFlink is there, or the table says why not; nothing is ignored in silence.

`pyflink_names.txt` is what PyFlink 2.3 has, written by `pyflink_names.py` beside it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from penstock.common.unsupported import UNSUPPORTED, reason
from penstock.core.errors import UnsupportedError

LINES = (Path(__file__).parent / "pyflink_names.txt").read_text().split("\n")
SPLIT = [line.partition("(")[::2] for line in LINES if line]
ARGUMENTS = {name: arguments.rstrip(")").split(", ") for name, arguments in SPLIT if arguments}
NAMES = [name for name, _ in SPLIT]

# Where an argument of PyFlink has another name here: what programs do not make themselves, a word
# that PyFlink misspells, and conversions that convert nothing.
OTHER_ARGUMENTS = {
    "common.completable_future.CompletableFuture.__init__",
    "common.typeinfo.DateTypeInfo.from_internal_type",
    "common.typeinfo.DateTypeInfo.to_internal_type",
    "common.typeinfo.TimeTypeInfo.from_internal_type",
    "common.typeinfo.TimeTypeInfo.to_internal_type",
    "common.typeinfo.TimestampTypeInfo.from_internal_type",
    "common.typeinfo.TimestampTypeInfo.to_internal_type",
    "datastream.connectors.file_system.FileSink.__init__",
    "datastream.data_stream.CloseableIterator.__init__",
    "datastream.data_stream.KeyedStream.__init__",
    "datastream.stream_execution_environment.StreamExecutionEnvironment.__init__",
    "datastream.state_backend.EmbeddedRocksDBStateBackend.set_number_of_transfer_threads",
}


def find(name: str) -> Any:
    """Returns what PyFlink's `name` is here."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module("penstock." + ".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = (
                inspect.getattr_static(found, part) if part == "__init__" else getattr(found, part)
            )
        return found
    raise AttributeError(name)


def is_there(name: str) -> bool:
    try:
        find(name)
    except (AttributeError, UnsupportedError):
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_name_is_there_or_explained(name: str) -> None:
    if name.endswith(".__init__"):
        return
    assert is_there(name) or reason(name), "neither there nor in UNSUPPORTED"


@pytest.mark.parametrize("name", [name for name in NAMES if reason(name) is None])
def test_arguments_are_pyflinks(name: str) -> None:
    wanted = [each for each in ARGUMENTS.get(name, ()) if each]
    if not wanted or name in OTHER_ARGUMENTS or not is_there(name):
        return
    try:
        signature = inspect.signature(find(name))
    except (TypeError, ValueError):
        return
    ours = {
        f"*{each.name}" if each.kind is each.VAR_POSITIONAL else each.name: each
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    }
    if any(each.kind is each.VAR_KEYWORD for each in ours.values()):
        return
    assert list(ours)[: len(wanted)] == wanted
    required = [n for n, each in ours.items() if each.default is each.empty and n[0] != "*"]
    assert set(required) <= set(wanted), "a program for PyFlink does not give these"


@pytest.mark.parametrize("pattern", UNSUPPORTED)
def test_table_is_about_pyflink(pattern: str) -> None:
    before, _, after = pattern.partition("*")
    exact = "*" not in pattern
    assert any(
        name == pattern if exact else name.startswith(before) and name.endswith(after)
        for name in NAMES
    ), "PyFlink has no such name"


@pytest.mark.parametrize("name", [name for name in NAMES if reason(name)])
def test_unsupported_raises_when_called(name: str) -> None:
    """A name that can be imported at all says why when it is called."""
    try:
        found = find(name)
    except AttributeError:
        return
    except UnsupportedError as error:
        assert str(reason(name)) in str(error)
        return
    if inspect.ismodule(found) or name.endswith(".__init__") or not callable(found):
        return
    if inspect.isclass(found) and type(found) is type:
        # A class of the connectors: whatever makes one of it raises.
        makers = [each for each in vars(found).values() if isinstance(each, staticmethod)]
        assert makers
    else:
        owner = name.rsplit(".", 1)[0]
        is_method = inspect.isclass(find(owner)) and not is_static(owner, name)
        makers = [functools.partial(found, "self") if is_method else found]
    for maker in makers:
        with pytest.raises(UnsupportedError):
            maker()


def is_static(owner: str, name: str) -> bool:
    return isinstance(inspect.getattr_static(find(owner), name.rsplit(".", 1)[1]), staticmethod)
