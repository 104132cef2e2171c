"""Flags payments above a limit per country; the limits come as a stream of their own."""

from collections.abc import Iterator
from typing import Any

from penstock.common import Types
from penstock.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor

LIMITS = [("fr", 100), ("jp", 5_000)]
PAYMENTS = [("fr", 90), ("fr", 120), ("jp", 4_000), ("jp", 9_000), ("de", 7)]
LIMIT_STATE = MapStateDescriptor("limits", Types.STRING(), Types.INT())


class Flag(BroadcastProcessFunction):
    """Every subtask knows all limits."""

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[str]:
        limit = ctx.get_broadcast_state(LIMIT_STATE).get(value[0])
        if limit is not None and value[1] > limit:
            yield f"{value[0]}: {value[1]} is more than {limit}"

    def process_broadcast_element(self, value: tuple[str, int], ctx: Any) -> Iterator[str]:
        ctx.get_broadcast_state(LIMIT_STATE).put(*value)
        return iter(())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    limits = env.from_collection(LIMITS).broadcast(LIMIT_STATE)
    env.from_collection(PAYMENTS).connect(limits).process(Flag()).print()
    env.execute("broadcast rules")


if __name__ == "__main__":
    main()
