"""Groups clicks of a user into sessions; what comes too late goes to a side output."""

from datetime import timedelta

from penstock.common import WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.window import EventTimeSessionWindows

Click = tuple[str, int]
CLICKS = [("ann", 1_000), ("ann", 4_000), ("bob", 5_000), ("ann", 60_000), ("bob", 2_000)]
TOO_LATE = OutputTag("too late")


class BehindEachClick(WatermarkGenerator):
    """Event time follows every click, a second behind; the built-in ones follow every read."""

    def on_event(self, event: Click, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp - 1_000)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_generator(BehindEachClick).with_timestamp_assigner(lambda c: c[1])
    )
    sessions = (
        clicks.key_by(lambda click: click[0])
        .window(EventTimeSessionWindows.with_gap(timedelta(seconds=10)))
        .side_output_late_data(TOO_LATE)
        .apply(
            lambda user, window, clicks: [
                f"{user}: {len(list(clicks))} clicks in {(window.end - window.start) // 1000} s"
            ]
        )
    )
    sessions.print()
    sessions.get_side_output(TOO_LATE).map(lambda click: f"too late: {click}").print()
    env.execute("sessions")


if __name__ == "__main__":
    main()
