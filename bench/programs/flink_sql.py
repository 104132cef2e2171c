"""The two workloads in Flink SQL: everything runs in the JVM, Python only submits the statement.

    python flink_sql.py (windows|users) INPUT (print|blackhole) [KEY=VALUE ...]

`print` writes the results to standard output, `blackhole` drops them: a running count per user is
a changelog, which no file sink of Flink takes.
"""

import sys

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

EVENTS = """
    CREATE TABLE events (
        ts BIGINT, channel STRING, id BIGINT, behavior STRING,
        event_time AS TO_TIMESTAMP_LTZ(ts, 3),
        WATERMARK FOR event_time AS event_time - INTERVAL '50' SECOND
    ) WITH (
        'connector' = 'filesystem', 'path' = '{source}',
        'format' = 'csv', 'csv.field-delimiter' = '\t'
    )
"""
SINKS = {
    "windows": "window_start BIGINT, window_end BIGINT, channel STRING, behavior STRING, n BIGINT",
    "users": "id BIGINT, n BIGINT",
}
QUERIES = {
    "windows": """
        SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000,
               UNIX_TIMESTAMP(CAST(window_end AS STRING)) * 1000,
               channel, behavior, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, channel, behavior
    """,
    "users": "SELECT id, COUNT(*) FROM events GROUP BY id",
}


def main(workload, source, sink, *settings):
    configuration = Configuration()
    configuration.set_string("parallelism.default", "2")
    configuration.set_string("table.local-time-zone", "UTC")
    for setting in settings:
        configuration.set_string(*setting.split("=", 1))
    env = TableEnvironment.create(
        EnvironmentSettings.new_instance()
        .in_streaming_mode()
        .with_configuration(configuration)
        .build()
    )
    env.execute_sql(EVENTS.format(source=source))
    env.execute_sql(f"CREATE TABLE counts ({SINKS[workload]}) WITH ('connector' = '{sink}')")
    env.execute_sql(f"INSERT INTO counts {QUERIES[workload]}").wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
