"""Warns when a sensor has been silent for ten seconds of event time: state and a timer."""

from collections.abc import Iterator
from datetime import timedelta

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

READINGS = [("a", 1_000), ("b", 2_000), ("a", 5_000), ("b", 14_000), ("a", 30_000)]
SILENCE_MS = 10_000


class SilenceAlert(KeyedProcessFunction):
    """Remembers the last reading of a sensor, for a day."""

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("last reading")
        last.enable_time_to_live(StateTtlConfig.new_builder(timedelta(days=1)).build())
        self.last = runtime_context.get_state(last)

    def process_element(
        self, value: tuple[str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[str]:
        last = self.last.value()
        if last is not None and value[1] <= last + SILENCE_MS:
            ctx.timer_service().delete_event_time_timer(last + SILENCE_MS)
        ctx.timer_service().register_event_time_timer(value[1] + SILENCE_MS)
        self.last.update(value[1])
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{ctx.get_current_key()} is silent since {timestamp - SILENCE_MS} ms"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda reading, _: reading[1]
    )
    (
        env.from_collection(READINGS)
        .assign_timestamps_and_watermarks(in_order)
        .key_by(lambda reading: reading[0])
        .process(SilenceAlert())
        .uid("silence")
        .print()
    )
    env.execute("silence alert")


if __name__ == "__main__":
    main()
