"""Gives each subtask a Python worker of its own, on masters with one executor.

A worker keeps the state of the subtasks it served last, but Spark hands a task to whichever worker
is idle. With two workers, half of the tasks would find an older version and have to catch up: 16 %
of the time of a windowed count (`docs/decisions/0005`). Spark keeps one pool of workers per
environment, so tasks with environments of their own get pools of their own.

1. Level n's shuffle output is split into RDDs of one partition (`PartitionPruningRDD`).
2. Each gets a Python stage whose environment names a slot: subtask number modulo cores.
3. Their union is shuffled to the next level. Spark still sees one stage a level.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import RDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock.runtime.frames import Frame

MOST_SUBTASKS: Final = 16
"""Levels wider than this are run the plain way; one RDD a subtask costs some milliseconds each."""

_SLOT: Final = "PENSTOCK_SLOT"

PartitionTask = Callable[[int, Iterable[Any]], Iterator[tuple[int, "Frame"]]]


class _Sending:
    """Runs one subtask and writes frames as Spark's shuffle wants them: target, bytes."""

    def __init__(self, task: PartitionTask, partition: int) -> None:
        self._task = task
        self._partition = partition

    def __call__(self, _: int, elements: Iterable[Any]) -> Iterator[bytes]:
        for target, frame in self._task(self._partition, elements):
            yield struct.pack("!q", target)
            yield pickle.dumps([(target, frame)], pickle.HIGHEST_PROTOCOL)


class _Reporting:
    """Runs one subtask of the last level, whose frames go to the driver."""

    def __init__(self, task: PartitionTask, partition: int) -> None:
        self._task = task
        self._partition = partition

    def __call__(self, _: int, elements: Iterable[Any]) -> Iterator[tuple[int, Frame]]:
        return self._task(self._partition, elements)


class SlottedLineage:
    """Builds the RDDs of an epoch.

    Args:
        context: A context whose tasks all run in one executor.
        widths: Number of subtasks by level.
    """

    def __init__(self, context: SparkContext, widths: list[int]) -> None:
        self._context = context
        self._widths = widths
        self._slots = max(1, context.defaultParallelism)
        self._seeds = [context.parallelize([index], 1) for index in range(widths[0])]
        self._choosers = [_set_of(context, index) for index in range(max(widths))]
        # Looked up once: the JVM asks all its jars for each part of a name, 5 ms in all.
        jvm: Any = context._jvm
        self._java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self._pruning = jvm.org.apache.spark.rdd.PartitionPruningRDD

    def frames(self, tasks: Sequence[PartitionTask]) -> RDD[Any]:
        """Returns the RDD of the last level's frames."""
        parts: list[RDD[Any]] = self._seeds
        for level, task in enumerate(tasks[:-1]):
            parts = self._shuffled(
                [
                    self._staged(part, _Sending(task, index), index, sends=True)
                    for index, part in enumerate(parts)
                ],
                self._widths[level + 1],
            )
        last = [
            self._staged(part, _Reporting(tasks[-1], index), index, sends=False)
            for index, part in enumerate(parts)
        ]
        return self._context.union(last)

    def _staged(self, part: RDD[Any], task: Any, index: int, *, sends: bool) -> RDD[Any]:
        staged: Any = part.mapPartitionsWithIndex(task)
        # What `_Sending` yields is serialised already.
        staged._bypass_serializer = sends
        environment = self._context.environment
        environment[_SLOT] = str(index % self._slots)
        try:
            # The environment is read when the JVM's side is made, which happens once.
            _ = staged._jrdd
        finally:
            del environment[_SLOT]
        return staged  # type: ignore[no-any-return]

    def _shuffled(self, staged: list[RDD[Any]], width: int) -> list[RDD[Any]]:
        context = self._context
        jvm: Any = context._jvm
        gateway: Any = context._gateway
        sides = gateway.new_array(self._java_rdd, len(staged))
        for index, each in enumerate(staged):
            sides[index] = each._jrdd
        union = context._jsc.union(sides)
        pairs = jvm.PairwiseRDD(union.rdd()).asJavaPairRDD()
        partitioner = jvm.PythonPartitioner(width, 0)
        shuffled = jvm.PythonRDD.valueOfPair(pairs.partitionBy(partitioner)).rdd()
        serializer: Any = BatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]
        return [
            RDD(
                self._pruning.create(shuffled, self._choosers[index]).toJavaRDD(),
                context,
                serializer,
            )
            for index in range(width)
        ]


def _set_of(context: SparkContext, index: int) -> Any:
    """Returns a Scala set of one number: as a function it says whether it holds a number."""
    jvm: Any = context._jvm
    return jvm.PythonUtils.toList([index]).toSet()


def has_one_executor(context: SparkContext) -> bool:
    """Whether all tasks run in the driver's own JVM."""
    return str(context.master).startswith("local") and "cluster" not in str(context.master)
