"""Type variables of the classes that programs subclass, such as `ProcessWindowFunction[...]`.

Programs may leave the brackets out: each variable then stands for anything, also for mypy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Defaults are part of `typing` from Python 3.13 on; nothing at run time depends on them.
    from typing_extensions import TypeVar

    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    OUT = TypeVar("OUT", default=Any)
    KEY = TypeVar("KEY", default=Any)
    K = TypeVar("K", default=Any)
    N = TypeVar("N", default=Any)
    T = TypeVar("T", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
    W2 = TypeVar("W2", default=Any)
else:
    from typing import TypeVar

    IN = TypeVar("IN")
    IN1 = TypeVar("IN1")
    IN2 = TypeVar("IN2")
    OUT = TypeVar("OUT")
    KEY = TypeVar("KEY")
    K = TypeVar("K")
    N = TypeVar("N")
    T = TypeVar("T")
    V = TypeVar("V")
    W = TypeVar("W")
    W2 = TypeVar("W2")
