"""Groups clicks of a user into sessions; what comes too late goes to a side output."""

from datetime import timedelta

from penstock.common import WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.window import EventTimeSessionWindows

CLICKS = [("ann", 1_000), ("ann", 4_000), ("bob", 5_000), ("ann", 60_000), ("bob", 2_000)]
TOO_LATE = OutputTag("too late")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    one_second = WatermarkStrategy.for_bounded_out_of_orderness(
        timedelta(seconds=1)
    ).with_timestamp_assigner(lambda click, _: click[1])
    sessions = (
        env.from_collection(CLICKS)
        .assign_timestamps_and_watermarks(one_second)
        .key_by(lambda click: click[0])
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
