"""Programs whose results are known: worked out by hand, or by a simple model beside the program.

A program is a function of an environment that returns a stream and what it must give: a list of
records (their order counts only where the program says so), or a function that checks them. The
runners in `test_programs.py` run each one in several ways, which must all agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Expected = list[Any] | Callable[[list[Any]], None]


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: Module and function.
        build: Makes stream and expected records of an environment.
        spark: Also runs on Spark.
        ordered: The records come in the given order, whatever the parallelism.
        clocked: Needs the test clock, which only a job in this process has.
        options: Further settings.
    """

    name: str
    build: Callable[..., tuple[Any, Expected]]
    spark: bool
    ordered: bool
    clocked: bool
    options: dict[str, str]


PROGRAMS: list[Program] = []


def program(
    *,
    spark: bool = False,
    ordered: bool = False,
    clocked: bool = False,
    options: dict[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a program."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{build.__module__.rpartition('.')[2]}.{build.__name__}"
        PROGRAMS.append(Program(name, build, spark, ordered, clocked, options or {}))
        return build

    return register
