"""Joins orders with payments of the same number that come within a minute."""

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment

ORDERS = [(1, "book", 0), (2, "lamp", 10_000), (3, "desk", 20_000)]
PAYMENTS = [(1, 12, 30_000), (2, 40, 90_000), (3, 99, 25_000)]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    by_last_field = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda record, _: record[2]
    )
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(by_last_field)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(by_last_field)
    (
        orders.key_by(lambda order: order[0])
        .interval_join(payments.key_by(lambda payment: payment[0]))
        .between(Time.seconds(0), Time.minutes(1))
        .process(lambda order, payment, ctx: [f"{order[1]} was paid: {payment[1]}"])
        .print()
    )
    env.execute("orders with payments")


if __name__ == "__main__":
    main()
