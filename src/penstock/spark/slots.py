"""Gives each slot a Python worker of its own, on masters with one executor.

A worker keeps the state of the subtasks it served last, but Spark hands a task to whichever worker
is idle. With two workers, half of the tasks would find an older version and have to catch up: 16 %
of the time of a windowed count (`docs/decisions/0005`). Spark keeps one pool of workers per
environment, so tasks with environments of their own get pools of their own.

A level has one task for each slot, and a slot for each core; a task runs all subtasks of its slot
one after the other (`docs/decisions/0010`).

1. Level n's shuffle output is split into RDDs of one partition (`PartitionPruningRDD`).
2. Each gets a Python stage whose environment names its slot.
3. Their union is shuffled to the next level. Spark still sees one stage a level.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import RDD
from pyspark.serializers import (
    BatchedSerializer,
    CloudPickleSerializer,
    CPickleSerializer,
    NoOpSerializer,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock.runtime.frames import Frame

MOST_SLOTS: Final = 16
"""With more, levels run the plain way: the work for one RDD a slot grows with the square."""

_SLOT: Final = "PENSTOCK_SLOT"

PartitionTask = Callable[[int, Iterable[Any]], Iterator[tuple[int, "Frame"]]]

_READS: Final[Any] = BatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]
"""Reads seeds, and what `_Sending` wrote."""


class _Sending:
    """Runs one task and writes frames as Spark's shuffle wants them: target, bytes."""

    def __init__(self, task: PartitionTask, partition: int) -> None:
        self._task = task
        self._partition = partition

    def __call__(self, _: int, elements: Iterable[Any]) -> Iterator[bytes]:
        for target, frame in self._task(self._partition, elements):
            yield struct.pack("!q", target)
            yield pickle.dumps([(target, frame)], pickle.HIGHEST_PROTOCOL)


class _Reporting:
    """Runs one task of the last level, whose frames go to the driver."""

    def __init__(self, task: PartitionTask, partition: int) -> None:
        self._task = task
        self._partition = partition

    def __call__(self, _: int, elements: Iterable[Any]) -> Iterator[tuple[int, Frame]]:
        return self._task(self._partition, elements)


class SlottedLineage:
    """Builds the RDDs of an epoch.

    A call into the JVM takes a fifth of a millisecond, a class or a setting that is looked up by
    name several: what is the same in each epoch is made once, and the RDDs without PySpark's own
    classes.

    Args:
        context: A context whose tasks all run in one executor.
        widths: Number of tasks by level.
    """

    def __init__(self, context: SparkContext, widths: list[int]) -> None:
        jvm: Any = context._jvm
        self._context = context
        self._widths = widths
        self._seeds = [context.parallelize([index], 1)._jrdd.rdd() for index in range(widths[0])]
        self._choosers = [_set_of(context, index) for index in range(max(widths))]
        self._partitioners = {width: jvm.PythonPartitioner(width, 0) for width in set(widths)}
        self._environments = [
            jvm.java.util.HashMap({**context.environment, _SLOT: str(slot)})
            for slot in range(max(widths))
        ]
        self._includes = jvm.java.util.ArrayList(context._python_includes)
        self._function = jvm.SimplePythonFunction
        self._python_rdd = jvm.PythonRDD
        self._pairwise_rdd = jvm.PairwiseRDD
        self._shuffled_rdd = jvm.org.apache.spark.rdd.ShuffledRDD
        self._java_pair_rdd = jvm.org.apache.spark.api.java.JavaPairRDD
        # For the classes that they really are Spark would choose Kryo, and make one in each task:
        # a quarter of the JVM's work for an epoch of small frames.
        self._any_class = jvm.scala.reflect.ClassTag.AnyRef()
        self._java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self._pruning = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._largest_command = jvm.PythonUtils.getBroadcastThreshold(context._jsc)

    def frames(self, tasks: Sequence[Sequence[PartitionTask]]) -> RDD[Any]:
        """Returns the RDD of the last level's frames, from the tasks of each level."""
        parts = self._seeds
        for level, width in enumerate(self._widths[1:]):
            sides = [
                # What it yields is serialised already.
                self._staged(part, _Sending(tasks[level][slot], slot), slot, NoOpSerializer())
                for slot, part in enumerate(parts)
            ]
            parts = self._shuffled(sides, width)
        writes = self._context.serializer
        last = [
            self._staged(part, _Reporting(tasks[-1][slot], slot), slot, writes)
            for slot, part in enumerate(parts)
        ]
        return RDD(self._union(last).toJavaRDD(), self._context, writes)

    def each(self, task: PartitionTask) -> RDD[Any]:
        """Returns the RDD of what a task makes of nothing in the worker of each slot."""
        writes = self._context.serializer
        none = self._context.parallelize([0], 1)._jrdd.rdd()
        parts = [
            self._staged(none, _Reporting(task, slot), slot, writes)
            for slot in range(len(self._environments))
        ]
        return RDD(self._union(parts).toJavaRDD(), self._context, writes)

    def _staged(self, part: Any, task: _Sending | _Reporting, slot: int, writes: Any) -> Any:
        """Returns the JVM's RDD of what a task makes of a part, in the worker of its slot."""
        context = self._context
        pickler: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        command = pickler.dumps((task, None, _READS, writes))
        if len(command) > self._largest_command:
            # The broadcast lives as long as the RDD.
            command = pickler.dumps(context.broadcast(command))
        broadcasts = [each._jbroadcast for each in context._pickled_broadcast_vars]
        context._pickled_broadcast_vars.clear()
        function = self._function(
            bytearray(command),
            self._environments[slot],
            self._includes,
            context.pythonExec,
            context.pythonVer,
            broadcasts,
            context._javaAccumulator,
        )
        return self._python_rdd(part, function, False, False)

    def _union(self, sides: list[Any]) -> Any:
        if len(sides) <= 2:
            return sides[0] if len(sides) == 1 else sides[0].union(sides[1])
        gateway: Any = self._context._gateway
        array = gateway.new_array(self._java_rdd, len(sides))
        for index, each in enumerate(sides):
            array[index] = each.toJavaRDD()
        jsc: Any = self._context._jsc
        return jsc.union(array).rdd()

    def _shuffled(self, sides: list[Any], width: int) -> list[Any]:
        pairs, tag = self._pairwise_rdd(self._union(sides)), self._any_class
        partitioned = self._shuffled_rdd(pairs, self._partitioners[width], tag, tag, tag)
        shuffled = self._python_rdd.valueOfPair(self._java_pair_rdd(partitioned, tag, tag)).rdd()
        return [self._pruning.create(shuffled, self._choosers[index]) for index in range(width)]


def _set_of(context: SparkContext, index: int) -> Any:
    """Returns a Scala set of one number: as a function it says whether it holds a number."""
    jvm: Any = context._jvm
    return jvm.PythonUtils.toList([index]).toSet()


def has_one_executor(context: SparkContext) -> bool:
    """Whether all tasks run in the driver's own JVM."""
    return str(context.master).startswith("local") and "cluster" not in str(context.master)
