"""Who is measured, with which settings and on how many records.

A peer may appear several times with different settings; its best figure is the one compared with.
Sizes differ because the peers' speeds do: each row runs on two sizes, and the rate is the slope.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


class Output(Enum):
    """Where a program leaves its results, and so how they are checked."""

    FILES = "files"
    PRINTED = "printed"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A program with settings.

    Attributes:
        workload: `windows`, `users` or `kafka`.
        peer: Name in the table.
        settings: What is set, in words.
        environment: Which environment of `bench.environments` runs it.
        program: File in `programs/`.
        arguments: Its arguments; `{input}` and `{output}` are filled in, and for topics
            `{brokers}` and `{jars}`.
        checked_arguments: Arguments of an extra, small run whose results are checked, where the
            measured runs drop theirs; empty when the measured runs themselves are checked.
        output: Where the results are.
        every_count: Whether a running count has to be written after every record; mini-batches of
            Flink SQL write the last one of each batch only.
        sizes: Records of the small and of the large run.
        quick_sizes: The same with `--quick`.
    """

    workload: str
    peer: str
    settings: str
    environment: str
    program: str
    arguments: tuple[str, ...]
    checked_arguments: tuple[str, ...] = ()
    output: Output = Output.FILES
    every_count: bool = True
    sizes: tuple[int, int]
    quick_sizes: tuple[int, int]

    @property
    def name(self) -> str:
        """What `--only` matches and progress lines show."""
        return f"{self.workload}, {self.peer}, {self.settings}"


PYFLINK_TUNED = (
    "python.fn-execution.bundle.size=100000",
    "python.state.cache-size=1000000",
    "pipeline.object-reuse=true",
    "taskmanager.memory.managed.size=1g",
)
# Without metrics PyFlink's window operator fails when it is opened, so only the other workload.
KAFKA_EVERY = "execution.checkpointing.interval=1 s"
NO_METRICS = "python.metric.enabled=false"
SQL_TUNED = ("pipeline.object-reuse=true", "taskmanager.memory.managed.size=1g")
SQL_MINI_BATCH = (
    "table.exec.mini-batch.enabled=true",
    "table.exec.mini-batch.allow-latency=1 s",
    "table.exec.mini-batch.size=50000",
)


def row_program(peer: str, workload: str, settings: str, *arguments: str) -> Contender:
    """PyFlink or Penstock running the same program with Python row functions."""
    fast = peer == "penstock"
    # With a million keys PyFlink writes about a thousand records a second in its default mode.
    slow_sizes = (50_000, 200_000) if workload == "windows" else (20_000, 80_000)
    return Contender(
        workload=workload,
        peer="Penstock, row functions" if fast else "PyFlink DataStream",
        settings=settings,
        environment=peer,
        program=f"{workload}.py",
        arguments=("{input}", "{output}", *arguments),
        sizes=(5_000_000, 20_000_000) if fast else slow_sizes,
        quick_sizes=(500_000, 2_000_000) if fast else (20_000, 60_000),
    )


def lowered_windows() -> Contender:
    """The windows of Penstock in terms of columns and built-in aggregates."""
    return Contender(
        workload="windows",
        peer="Penstock, columns",
        settings="hashmap",
        environment="penstock",
        program="windows_lowered.py",
        arguments=("{input}", "{output}", "state.backend.type=hashmap"),
        sizes=(10_000_000, 60_000_000),
        quick_sizes=(1_000_000, 4_000_000),
    )


def flink_sql(workload: str, settings: str, *arguments: str) -> Contender:
    """Flink SQL on the JVM. Windows are printed; running counts only in the checked run."""
    printed = (workload, "{input}", "print", *arguments)
    dropped = (workload, "{input}", "blackhole", *arguments)
    return Contender(
        workload=workload,
        peer="Flink SQL (JVM)",
        settings=settings,
        environment="pyflink",
        program="flink_sql.py",
        arguments=printed if workload == "windows" else dropped,
        checked_arguments=() if workload == "windows" else printed,
        output=Output.PRINTED,
        every_count=SQL_MINI_BATCH[0] not in arguments,
        sizes=(10_000_000, 60_000_000) if workload == "windows" else (2_000_000, 8_000_000),
        quick_sizes=(1_000_000, 4_000_000),
    )


def spark_users(form: str) -> Contender:
    """PySpark's own arbitrary stateful operator."""
    return Contender(
        workload="users",
        peer="PySpark transformWithState",
        settings=f"rocksdb, {form}, 2 shuffle partitions",
        environment="pyspark",
        program="spark_users.py",
        arguments=("{input}", "{output}", form, "spark.sql.shuffle.partitions=2"),
        sizes=(50_000, 200_000),
        quick_sizes=(20_000, 80_000),
    )


def kafka_program(peer: str, settings: str, guarantee: str, *arguments: str) -> Contender:
    """PyFlink or Penstock running the same program between two topics."""
    fast = peer == "penstock"
    if not fast:
        arguments = ("pipeline.jars=file://{jars}", *arguments)
    return Contender(
        workload="kafka",
        peer="Penstock, row functions" if fast else "PyFlink DataStream",
        settings=f"{settings}, {guarantee.replace('_', ' ').lower()}",
        environment=peer,
        program="kafka.py",
        arguments=("{brokers}", "{input}", "{output}", "all", guarantee, KAFKA_EVERY, *arguments),
        output=Output.TOPIC,
        sizes=(1_000_000, 6_000_000) if fast else (50_000, 200_000),
        quick_sizes=(500_000, 2_000_000) if fast else (20_000, 60_000),
    )


def spark_kafka(form: str) -> Contender:
    """PySpark's operator between two topics, whose sink is at least once."""
    return Contender(
        workload="kafka",
        peer="PySpark transformWithState",
        settings=f"rocksdb, {form}, 2 shuffle partitions, at least once",
        environment="pyspark",
        program="spark_users.py",
        arguments=(
            "kafka://{brokers}/{input}",
            "kafka://{brokers}/{output}",
            *(form, "spark.sql.shuffle.partitions=2", "spark.jars={jars}"),
        ),
        output=Output.TOPIC,
        sizes=(50_000, 200_000),
        quick_sizes=(20_000, 80_000),
    )


def plain_python(workload: str) -> Contender:
    """A loop without any engine, on one core: what the functions cost by themselves."""
    return Contender(
        workload=workload,
        peer="a loop of plain Python",
        settings="one process, no engine",
        environment="python",
        program="plain.py",
        arguments=(workload, "{input}", "{output}"),
        sizes=(5_000_000, 20_000_000),
        quick_sizes=(500_000, 2_000_000),
    )


def all_contenders() -> list[Contender]:
    """Every row of the table, in its order."""
    rocksdb, hashmap = "state.backend.type=rocksdb", "state.backend.type=hashmap"
    threads = "python.execution-mode=thread"
    tuned = (*PYFLINK_TUNED, NO_METRICS)
    return [
        row_program("penstock", "windows", "hashmap", hashmap),
        lowered_windows(),
        plain_python("windows"),
        row_program("pyflink", "windows", "defaults"),
        row_program("pyflink", "windows", "tuned", *PYFLINK_TUNED),
        row_program("pyflink", "windows", "tuned, thread mode", *PYFLINK_TUNED, threads),
        flink_sql("windows", "defaults"),
        flink_sql("windows", "tuned", *SQL_TUNED),
        row_program("penstock", "users", "hashmap", hashmap),
        row_program("penstock", "users", "rocksdb", rocksdb),
        plain_python("users"),
        row_program("pyflink", "users", "hashmap, defaults", hashmap),
        row_program("pyflink", "users", "hashmap, tuned, thread mode", hashmap, *tuned, threads),
        row_program("pyflink", "users", "rocksdb, tuned", rocksdb, *tuned),
        row_program("pyflink", "users", "rocksdb, tuned, thread mode", rocksdb, *tuned, threads),
        spark_users("rows"),
        spark_users("pandas"),
        flink_sql("users", "hashmap, tuned", hashmap, *SQL_TUNED),
        flink_sql("users", "hashmap, tuned, mini-batch", hashmap, *SQL_TUNED, *SQL_MINI_BATCH),
        flink_sql("users", "rocksdb, tuned", rocksdb, *SQL_TUNED),
        flink_sql("users", "rocksdb, tuned, mini-batch", rocksdb, *SQL_TUNED, *SQL_MINI_BATCH),
        kafka_program("penstock", "hashmap", "AT_LEAST_ONCE", hashmap),
        kafka_program("penstock", "hashmap", "EXACTLY_ONCE", hashmap),
        kafka_program("penstock", "rocksdb", "AT_LEAST_ONCE", rocksdb),
        kafka_program("pyflink", "hashmap, defaults", "AT_LEAST_ONCE", hashmap),
        kafka_program("pyflink", "hashmap, tuned", "AT_LEAST_ONCE", hashmap, *tuned),
        *(
            kafka_program(
                "pyflink", "hashmap, tuned, thread mode", guarantee, hashmap, *tuned, threads
            )
            for guarantee in ("AT_LEAST_ONCE", "EXACTLY_ONCE")
        ),
        spark_kafka("rows"),
    ]
