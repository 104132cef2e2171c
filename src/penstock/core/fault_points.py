"""Named places where a process can be made to fail: how tests break real jobs.

    _POINTER = fault_span("checkpoint.pointer")     # registers two points, at import
    with _POINTER:                                  # costs two looks at empty tuples
        publish()

They are armed by the environment, before the process starts:

    PENSTOCK_FAULT_POINTS='checkpoint.pointer.before#3=kill;storage.write~_metadata=torn:17'

    <name or *>[~<text in the detail>][#<n-th time>][@<file>]=<kind>[:<argument>]

With `@<file>` a fault strikes once in all processes: in the one that creates the file. Kinds:

    kill        SIGKILL: nothing runs any more
    exit        the process ends at once with status 86
    raise       an error of ours        enospc   the disk is full
    hang        endlessly               sleep:S  for S seconds
    torn:K      of a write: K bytes (or `half`, or `-K`: all but K) are written, then SIGKILL
    note:FILE   nothing breaks; the name is appended to a file
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from typing import Final

from penstock.core.errors import ConfigurationError, PenstockError

VARIABLE: Final = "PENSTOCK_FAULT_POINTS"
EXIT_STATUS: Final = 86
KINDS: Final = ("kill", "exit", "raise", "enospc", "hang", "sleep", "torn", "note")
_FAULT: Final = re.compile(
    r"(?P<name>[a-z_.*]+)(?:~(?P<text>[^#@=]+))?(?:#(?P<nth>[1-9][0-9]*))?(?:@(?P<once>[^=]+))?"
    r"=(?P<kind>[a-z]+)(?::(?P<argument>.+))?"
)


class FaultError(PenstockError):
    """What `raise` raises."""


@dataclass(frozen=True, slots=True)
class _Fault:
    name: str
    text: str
    nth: int
    once: str
    kind: str
    argument: str


class FaultPoint:
    """One place.

    Attributes:
        name: Unique; `<thing>.<step>.before` or `.after`.
    """

    __slots__ = ("_counts", "_faults", "_lock", "name")

    def __init__(self, name: str, faults: tuple[_Fault, ...]) -> None:
        self.name = name
        self._faults = faults
        self._counts = [0] * len(faults)
        self._lock = threading.Lock()

    def reach(self, detail: str = "") -> None:
        """Fails here if that is armed."""
        if self._faults:
            for fault in self._due(detail):
                _strike(fault, self.name, detail)

    def limit(self, detail: str, size: int) -> int | None:
        """Returns how many of `size` bytes are written before `tear`; None for all of them."""
        if self._faults:
            for fault in self._due(detail):
                if fault.kind == "torn":
                    return _torn_size(fault.argument, size)
                _strike(fault, self.name, detail)
        return None

    def tear(self) -> None:
        """The write was cut short: nothing runs any more."""
        os.kill(os.getpid(), signal.SIGKILL)

    def _due(self, detail: str) -> list[_Fault]:
        due = []
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.text in detail:
                    self._counts[index] += 1
                    if fault.nth in (0, self._counts[index]) and _first(fault.once):
                        due.append(fault)
        return due


class FaultSpan:
    """The places before and after something; the second one is reached only if that went well."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: FaultPoint, after: FaultPoint) -> None:
        self._before = before
        self._after = after

    def __enter__(self) -> None:
        self._before.reach()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._after.reach()


POINTS: Final[dict[str, FaultPoint]] = {}
"""All that the modules imported so far have registered."""


def fault_point(name: str) -> FaultPoint:
    """Registers a place; called once for each name, when its module is imported."""
    assert name not in POINTS, f"two fault points are called {name}"
    point = FaultPoint(name, tuple(each for each in _ARMED if each.name in ("*", name)))
    POINTS[name] = point
    return point


def fault_span(name: str) -> FaultSpan:
    """Registers `<name>.before` and `<name>.after`, for a `with` statement."""
    return FaultSpan(fault_point(f"{name}.before"), fault_point(f"{name}.after"))


def _parse(text: str) -> tuple[_Fault, ...]:
    faults = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        found = _FAULT.fullmatch(part)
        if found is None or found["kind"] not in KINDS:
            raise ConfigurationError(
                f"{VARIABLE} holds {part!r}; write <point>[~text][#n][@file]=<kind>[:argument], "
                f"with a kind of {', '.join(KINDS)}."
            )
        values = {key: value or "" for key, value in found.groupdict().items()}
        nth = int(values.pop("nth") or 0)
        faults.append(_Fault(nth=nth, **values))
    return tuple(faults)


def _first(once: str) -> bool:
    if not once:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def _torn_size(argument: str, size: int) -> int:
    if argument == "half":
        return size // 2
    wanted = int(argument or 0)
    return max(0, min(size, wanted if wanted >= 0 else size + wanted))


def _strike(fault: _Fault, name: str, detail: str) -> None:
    match fault.kind:
        case "kill" | "torn":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(EXIT_STATUS)
        case "raise":
            raise FaultError(f"fault at {name} {detail}".rstrip() + ".")
        case "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), detail or name)
        case "hang":
            threading.Event().wait()
        case "sleep":
            time.sleep(float(fault.argument))
        case "note":
            with contextlib.suppress(OSError), open(fault.argument, "a", encoding="utf-8") as file:
                file.write(f"{name}\n")


_ARMED: Final = _parse(os.environ.get(VARIABLE, ""))
