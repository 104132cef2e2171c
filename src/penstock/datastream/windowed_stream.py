"""Windows over a keyed stream or over all records: collects settings, then appends one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from penstock.core.errors import ProgramError
from penstock.core.refused_names import Hints, earlier_keywords
from penstock.core.times import to_millis
from penstock.core.types import TypeInformation, Types
from penstock.datastream.callables import (
    as_all_window_function,
    as_process_all_window_function,
    as_process_window_function,
    as_window_function,
    one_key,
)
from penstock.datastream.stream_view import FieldAggregates
from penstock.graph.nodes import KeyGroups
from penstock.operators.reduce import RollingAggregation
from penstock.operators.results import OutputTag, as_output_tag
from penstock.operators.windows.aggregates import CountAggregate
from penstock.operators.windows.contents import AggregateContents, Buffer, ReduceContents
from penstock.operators.windows.spec import WindowSpec

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream, KeyedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.operators.functions import AggregateFunction, ReduceFunction
    from penstock.operators.windows.assigners import WindowAssigner
    from penstock.operators.windows.contents import ContentsSpec
    from penstock.operators.windows.evictors import Evictor
    from penstock.operators.windows.triggers import Trigger


class WindowSettings(Hints):
    """Trigger, evictor, lateness: what can be set between `window(...)` and its function."""

    def __init__(self, window_assigner: WindowAssigner) -> None:
        self._window_assigner = window_assigner
        self._window_trigger: Trigger | None = None
        self._window_evictor: Evictor | None = None
        self._allowed_lateness_ms = 0
        self._late_data_output_tag: OutputTag | None = None
        self._window_spec()

    def trigger(self, trigger: Trigger) -> Self:
        """Sets when windows are evaluated, in place of the assigner's default.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.trigger(CountTrigger.of(1)).count().take()
            [1, 2, 1]
        """
        self._window_trigger = trigger
        self._window_spec()
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Sets which records leave a window when it is evaluated.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.evictor(CountEvictor.of(1)).sum(1).take()
            [('a', 4000), ('a', 12000)]
        """
        self._window_evictor = evictor
        self._window_spec()
        return self

    def allowed_lateness(self, time_ms: Any) -> Self:
        """Sets how long a window takes records after its end; a span or milliseconds.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.allowed_lateness(Duration.of_minutes(1)).count().take()
            [2, 1]
        """
        self._allowed_lateness_ms = to_millis(time_ms, "the allowed lateness")
        self._window_spec()
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Sends late records to a side output of the result instead of dropping them.

        Example:
            >>> late = OutputTag("late")
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.side_output_late_data(late).count().get_side_output(late).take()
            []
        """
        self._late_data_output_tag = as_output_tag(output_tag)
        return self

    _is_all: ClassVar[bool] = False

    def _window_spec(
        self, contents: ContentsSpec | None = None, function: Any = None
    ) -> WindowSpec:
        """Returns the operator; called after every setting, so that errors come at their line."""
        return WindowSpec(
            assigner=self._window_assigner,
            trigger=self._window_trigger,
            evictor=self._window_evictor,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag=self._late_data_output_tag,
            contents=contents or Buffer(),
            function=function,
            is_all=self._is_all,
        )

    @property
    def _window_name(self) -> str:
        return type(self._window_assigner).__name__

    def _describe(self, verb: str, function: Any) -> str:
        trigger = type(self._window_spec().used_trigger).__name__
        return f"{verb}({self._window_assigner!r}, {trigger}, {function_name(function)})"


class _WindowedStream(WindowSettings, FieldAggregates):
    """What windows by key and windows over all records have in common."""

    _as_window_function: ClassVar[Any]
    _as_process_window_function: ClassVar[Any]

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(window_assigner)
        self._stream = data_stream

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to.

        Example:
            >>> windows = events.key_by(lambda event: event[0]).count_window(2)
            >>> windows.get_execution_environment() is env
            True
        """
        return self._stream._environment

    def get_input_type(self) -> TypeInformation:
        """Returns the type of the records that the windows hold.

        Example:
            >>> numbers = env.from_collection([1, 2], Types.INT())
            >>> numbers.key_by(abs).count_window(2).get_input_type() == Types.INT()
            True
        """
        return self._stream._type_info

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Combines the records of a window; a window function then sees only the result.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.reduce(lambda a, b: (a[0], a[1] + b[1])).take()
            [('a', 5000), ('a', 12000)]
        """
        if window_function is not None:
            window_function = self._as_process_window_function(window_function)
        elif output_type is None:
            output_type = self._stream._type_info
        return self._append(
            ReduceContents(reduce_function), window_function, output_type, reduce_function
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Folds the records of a window into an accumulator.

        Args:
            aggregate_function: How.
            window_function: Sees only the result; None emits the result itself.
            accumulator_type: Type of the accumulator, for state that others read.
            output_type: Type of what is emitted.

        Example:
            >>> class Mean(AggregateFunction):
            ...     def create_accumulator(self):
            ...         return 0, 0
            ...
            ...     def add(self, value, accumulator):
            ...         return accumulator[0] + value[1], accumulator[1] + 1
            ...
            ...     def get_result(self, accumulator):
            ...         return accumulator[0] / accumulator[1]
            ...
            ...     def merge(self, a, b):
            ...         return a[0] + b[0], a[1] + b[1]
            >>> keyed = events.key_by(lambda event: event[0])
            >>> keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).aggregate(Mean()).take()
            [2500.0, 12000.0]
        """
        if window_function is not None:
            window_function = self._as_process_window_function(window_function)
        return self._append(
            AggregateContents(aggregate_function), window_function, output_type, aggregate_function
        )

    @earlier_keywords(result_type="output_type")
    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Calls a function with all records of a window.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.apply(lambda key, window, found: [(window.start, len(list(found)))]).take()
            [(0, 2), (10000, 1)]
        """
        function = self._as_window_function(window_function)
        return self._append(Buffer(), function, output_type, window_function)

    @earlier_keywords(result_type="output_type")
    def process(
        self, process_window_function: Any, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Calls a function with a context and all records of a window.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.process(lambda key, ctx, found: [(key, ctx.window().end)]).take()
            [('a', 10000), ('a', 20000)]
        """
        function = self._as_process_window_function(process_window_function)
        return self._append(Buffer(), function, output_type, process_window_function)

    def count(self) -> DataStream:
        """Counts the records of each window.

        Example:
            >>> windows = events.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
            >>> windows.count().take()
            [2, 1]
        """
        return self._append(AggregateContents(CountAggregate()), None, Types.LONG(), "count")

    def _aggregate_field(self, kind: str, position: int | str) -> DataStream:
        return self._append(
            ReduceContents(RollingAggregation(kind, position)), None, self._stream._type_info, kind
        )

    def key_by(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ProgramError(
            "key_by() was called on windows; their contents are keyed already. Call reduce(), "
            "aggregate(), apply() or process() first, and key_by() on the result."
        )

    def _append(
        self, contents: ContentsSpec, function: Any, output_type: Any, shown: Any
    ) -> DataStream:
        stream = self._stream
        settings: dict[str, Any] = {}
        if self._is_all:
            stream = stream._repartition(KeyGroups(one_key))
            settings = {"parallelism": 1, "is_parallel": False}
        return stream._append(
            self._window_name,
            self._window_spec(contents, function),
            stream._inputs,
            output_type,
            description=self._describe("AllWindow" if self._is_all else "Window", shown),
            **settings,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._window_assigner!r} over {self._stream!r})"


class WindowedStream(_WindowedStream):
    """Windows by key."""

    _as_window_function = staticmethod(as_window_function)
    _as_process_window_function = staticmethod(as_process_window_function)

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        super().__init__(keyed_stream, window_assigner)


class AllWindowedStream(_WindowedStream):
    """Windows over all records; they run in one subtask."""

    _as_window_function = staticmethod(as_all_window_function)
    _as_process_window_function = staticmethod(as_process_all_window_function)
    _is_all = True


def function_name(function: Any) -> str:
    """Returns what to call a function in a description."""
    if isinstance(function, str):
        return function
    return getattr(function, "__name__", None) or type(function).__name__
