"""`WindowSpec`: a windowed operation as the program said it, checked and ready to travel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.operators.adapters import as_instance, check_methods
from penstock.operators.logic import OperatorLogic, OperatorSpec
from penstock.operators.windows.assigners import MergingWindowAssigner, WindowAssigner
from penstock.operators.windows.contents import AggregateContents, Buffer
from penstock.operators.windows.evictors import Evictor
from penstock.operators.windows.functions import (
    AllWindowFunction,
    PairContents,
    PairFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.windows.triggers import Trigger

if TYPE_CHECKING:
    from penstock.operators.windows.window_state import ContentsSpec


@dataclass(frozen=True, slots=True)
class WindowSpec(OperatorSpec):
    """Assigner, trigger, evictor, contents and function of a windowed operation.

    `window_all` is the same: its records all carry one key and it runs with parallelism 1.
    """

    is_keyed = True
    assigner: WindowAssigner  # Which windows a record belongs to.
    trigger: Trigger | None = None  # When a window is evaluated; None for the assigner's default.
    evictor: Evictor | None = None  # Which records leave a window when it is evaluated, or None.
    # How long a window takes records after the watermark has passed it.
    allowed_lateness_ms: int = 0
    # Side output of late records (an `OutputTag` or its id), or None to drop them.
    late_tag: Any = None
    contents: ContentsSpec = field(default_factory=Buffer)  # What a window holds.
    # A window function of one of four kinds, a `PairFunction`, or None to emit what the contents
    # make.
    function: Any = None
    is_all: bool = False  # Whether all records carry one key, which need not be looked at.

    def __post_init__(self) -> None:
        if not isinstance(self.assigner, WindowAssigner):
            raise ProgramError(
                f"window(...) was given {self.assigner!r}; it takes a WindowAssigner, for example "
                "TumblingEventTimeWindows.of(Time.minutes(1))."
            )
        if self.trigger is not None and not isinstance(self.trigger, Trigger):
            raise ProgramError(f"trigger(...) was given {self.trigger!r}; it takes a Trigger.")
        if self.evictor is not None and not isinstance(self.evictor, Evictor):
            raise ProgramError(f"evictor(...) was given {self.evictor!r}; it takes an Evictor.")
        for part in (self.assigner, self.trigger, self.evictor):
            check_methods(part)
        if self.allowed_lateness_ms < 0:
            raise ProgramError(
                f"the allowed lateness is {self.allowed_lateness_ms} ms; it must not be negative."
            )
        self._check_merging()
        self._check_function()

    def _check_merging(self) -> None:
        if not isinstance(self.assigner, MergingWindowAssigner):
            return
        trigger = self.used_trigger
        if not trigger.can_merge():
            raise ProgramError(
                f"{self.assigner!r} merges windows, which {trigger!r} does not support. "
                "Use a trigger whose can_merge() is True, or windows that do not merge."
            )
        if isinstance(self.contents, AggregateContents):
            function = self.contents.function
            if not callable(getattr(function, "merge", None)):
                raise ProgramError(
                    f"{type(function).__name__} needs merge(acc_a, acc_b) for {self.assigner!r}."
                )

    def _check_function(self) -> None:
        function = self.function
        if isinstance(self.contents, PairContents) != isinstance(function, PairFunction):
            raise ProgramError(
                "PairContents and PairFunction belong together: they are the two halves of a join "
                "or a co-group."
            )
        if isinstance(function, PairFunction):
            return
        if function is not None:
            as_instance(
                function,
                WindowFunction,
                ProcessWindowFunction,
                AllWindowFunction,
                ProcessAllWindowFunction,
            )

    @property
    def used_trigger(self) -> Trigger:
        """The trigger that runs: the program's or the assigner's default."""
        return self.assigner.get_default_trigger(None) if self.trigger is None else self.trigger

    def build(self) -> OperatorLogic:
        from penstock.operators.windows.choice import build_logic

        return build_logic(self)
