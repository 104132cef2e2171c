"""Every public name of PyFlink is there, or the table says why not; nothing is ignored in silence.

Written by `pyflink_names.py` beside them: `pyflink_names.txt` is what PyFlink 2.3 has,
`pyflink_1_names.txt` what 1.12, 1.13, 1.16 or 1.20 had and 2.3 has dropped, and
`pyflink_imports.txt` what can be imported from every module of these versions.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import UnsupportedError
from penstock.core.pyflink_names import REFUSED, REFUSED_MODULES
from penstock.core.refused_names import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent
LINES = (HERE / "pyflink_names.txt").read_text().split("\n")
SPLIT = [line.partition("(")[::2] for line in LINES if line]
ARGUMENTS = {name: arguments.rstrip(")").split(", ") for name, arguments in SPLIT if arguments}
NAMES = [name for name, _ in SPLIT]
OLD_NAMES = (HERE / "pyflink_1_names.txt").read_text().split()
IMPORTS = {
    module: names.split()
    for line in (HERE / "pyflink_imports.txt").read_text().splitlines()
    for module, _, names in [line.partition(":")]
}
IMPORTED = [f"{module}.{name}" for module, names in IMPORTS.items() for name in names]
ALL_NAMES = [*NAMES, *OLD_NAMES, *IMPORTS, *IMPORTED]

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
    "datastream.connectors.kafka.KafkaSink.__init__",
    "datastream.data_stream.CloseableIterator.__init__",
    "datastream.data_stream.KeyedStream.__init__",
    "datastream.formats.csv.CsvSchema.__init__",
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


def failures(check: Callable[[str], None], names: Iterable[str]) -> str:
    """Returns a line for each of the names that a check fails for.

    A test for each of the 3,000 names would take longer to report than to run.
    """
    found = ""
    for name in names:
        try:
            check(name)
        except (Exception, pytest.fail.Exception) as error:
            found += f"{name}: {error!r}\n"
    return found


def is_there(name: str) -> bool:
    """Whether a name is there, or its use says why not."""
    try:
        find(name)
    except UnsupportedError:
        return True
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("module", IMPORTS)
def test_everything_can_be_imported(module: str) -> None:
    """As a program does it; names that are refused too, which raise later."""
    importlib.import_module(f"penstock.{module}")
    for name in IMPORTS[module]:
        exec(f"from penstock.{module} import {name}", {})


@pytest.mark.parametrize("module", IMPORTS)
def test_what_is_refused_raises_on_every_use(module: str) -> None:
    for name in IMPORTS[module]:
        full = f"{module}.{name}"
        refused = find(full)
        if reason(full) is None or getattr(refused, "__module__", None) != f"penstock.{module}":
            continue
        text = re.escape(f"{name}(...) is not supported: {reason(full)}.")
        with pytest.raises(UnsupportedError, match=text):
            refused()
        with pytest.raises(UnsupportedError, match=f"{name}.builder is not supported"):
            refused.builder()
        with pytest.raises(UnsupportedError, match=f"class Mine.{name}. is not supported"):
            type(refused)("Mine", (refused,), {})


def test_what_is_refused_can_be_passed_on() -> None:
    """In annotations, in `except`, and to workers in what a function refers to."""
    from penstock.table import Table
    from penstock.util.exceptions import TableException

    assert pickle.loads(pickle.dumps(Table)) is Table
    assert str(list[Table] | None) == "list[penstock.table.Table] | None"
    with pytest.raises(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        except TableException:
            pass


def test_all_names_of_a_refused_module_at_once() -> None:
    space: dict[str, Any] = {}
    exec("from penstock.table import *\nfrom penstock.table.expressions import *", space)
    with pytest.raises(UnsupportedError, match="Spark SQL"):
        space["StreamTableEnvironment"].create(None)
    with pytest.raises(UnsupportedError, match="Spark SQL"):
        space["col"]("a")


def test_modules_of_others_are_not_ours() -> None:
    program = "import penstock, importlib.util as u; print(u.find_spec('table'), u.find_spec('ml'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["None", "None"], done.stderr
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("penstock.table.no_such_module")
    with pytest.raises(ImportError):
        exec("from penstock.datastream import NoSuchName")


def test_names_are_there_or_explained() -> None:
    missing = [
        name
        for name in [*NAMES, *OLD_NAMES]
        if not (name.endswith(".__init__") or is_there(name) or reason(name))
    ]
    assert missing == [], "neither there nor in REFUSED"


def test_arguments_are_pyflinks() -> None:
    assert failures(check_arguments, (name for name in NAMES if reason(name) is None)) == ""


def check_arguments(name: str) -> None:
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


def test_table_is_about_pyflink() -> None:
    assert failures(check_pattern, [*REFUSED, *REFUSED_MODULES]) == ""


def check_pattern(pattern: str) -> None:
    before, _, after = pattern.partition("*")
    exact = "*" not in pattern
    assert any(
        name == pattern if exact else name.startswith(before) and name.endswith(after)
        for name in ALL_NAMES
    ), "PyFlink has no such name"


def test_unsupported_raises_when_called() -> None:
    """A name that can be imported at all says why when it is called."""
    assert failures(check_refusal, filter(reason, [*NAMES, *OLD_NAMES])) == ""


def check_refusal(name: str) -> None:
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
