"""Gives each slot of an executor a Python worker of its own, and each task its executor.

A worker keeps the state of the subtasks it served last, but Spark hands a task to whichever worker
is idle. With two workers, half of the tasks would find an older version and have to catch up: 16 %
of the time of a windowed count (`docs/decisions/0005`). Spark keeps one pool of workers per
environment, so tasks with environments of their own get pools of their own.

A level has one task for each home that has subtasks (`homes.Home`: an executor and one of its
slots, as many as it has cores); a task runs all subtasks of its home one after the other
(`docs/decisions/0010`).

1. Level n's shuffle output is split into one RDD for each slot (`PartitionPruningRDD`). On a
   cluster it is first paired with an RDD that has a partition for each executor, which prefers to
   be there: a `CartesianRDD` prefers what its first side prefers. Of its partitions only those are
   kept that pair a task with its executor.
2. Each gets a Python stage whose environment names its slot.
3. Their union is shuffled to the next level. Spark still sees one stage a level.

So the number of RDDs depends on the slots of an executor alone, not on executors or subtasks. Where
any worker may run any task, because one machine has too many slots or executors come and go with
the tasks, all tasks share one slot.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark import RDD
from pyspark.serializers import (
    BatchedSerializer,
    CloudPickleSerializer,
    CPickleSerializer,
    NoOpSerializer,
)

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

    from penstock.runtime.exchange import Frame
    from penstock.spark.homes import Home

MOST_SLOTS: Final = 16
"""With more, the tasks of one machine share a slot: the work for the RDDs grows with the square."""

_SLOT: Final = "PENSTOCK_SLOT"

PartitionTask = Callable[[int, Iterable[Any]], Iterator[tuple[int, "Frame"]]]

_READS: Final[Any] = BatchedSerializer(CPickleSerializer())  # type: ignore[no-untyped-call]
"""Reads seeds, and what `_Sending` wrote."""


class _Sending:
    """Runs a task and writes frames as Spark's shuffle wants them: target, bytes."""

    def __init__(self, task: PartitionTask) -> None:
        self._task = task

    def __call__(self, position: int, elements: Iterable[Any]) -> Iterator[bytes]:
        for target, frame in self._task(position, elements):
            yield struct.pack("!q", target)
            yield pickle.dumps([(target, frame)], pickle.HIGHEST_PROTOCOL)


class Broadcasts:
    """What an epoch sends in files of the driver, because it is large, until the next one.

    Left alone, PySpark makes such a file of each large command and keeps it as long as the session.
    """

    def __init__(self, context: SparkContext) -> None:
        jvm: Any = context._jvm
        self._context = context
        self._sent: list[Broadcast[Any]] = []
        self.largest_command = jvm.PythonUtils.getBroadcastThreshold(context._jsc)
        """In bytes, that Spark sends as it is."""

    def send(self, value: Any) -> Broadcast[Any]:
        """Returns a broadcast that lives until `forget`."""
        sent = self._context.broadcast(value)
        self._sent.append(sent)
        return sent

    def forget(self) -> None:
        """Removes what was sent; nothing that reads it runs."""
        while self._sent:
            self._sent.pop().destroy()


class SlottedLineage:
    """Builds the RDDs of an epoch.

    A call into the JVM takes a fifth of a millisecond, a class or a setting that is looked up by
    name several: what is the same in each epoch is made once, and the RDDs without PySpark's own
    classes.

    Args:
        context: Where to run.
        levels: The home of each task, by level; those of an executor follow each other.
        locations: Names of executors as preferred locations, by id; empty where there is one.
        broadcasts: For large commands.
        spare: Homes for `each` alone: where tasks share a slot, it may have more workers.
    """

    def __init__(
        self,
        context: SparkContext,
        levels: Sequence[Sequence[Home]],
        locations: Mapping[str, str],
        broadcasts: Broadcasts,
        spare: Sequence[Home] = (),
    ) -> None:
        jvm: Any = context._jvm
        self._context = context
        self._broadcasts = broadcasts
        self.groups = [_by_slot(homes) for homes in levels]
        """The tasks of each slot, by level and slot."""
        widths = [len(homes) for homes in levels]
        self._partitioners = {width: jvm.PythonPartitioner(width, 0) for width in set(widths)}
        self._widths = widths
        self.homes: dict[int, list[Home]] = {}
        """All homes, by slot; one that several tasks of a level share is there for each of them."""
        for home in sorted(reduce(or_, map(Counter, [*levels, spare])).elements()):
            self.homes.setdefault(home.slot, []).append(home)
        self._locations = {
            slot: [locations.get(home.executor, "") for home in homes]
            for slot, homes in self.homes.items()
        }
        self._environments = {
            slot: jvm.java.util.HashMap({**context.environment, _SLOT: str(slot)})
            for slot in self._locations
        }
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
        self._hints: list[Any] = [None] * len(levels)
        choosers: list[Sequence[int]] = [range(width) for width in widths]
        if locations:
            for level, homes in enumerate(levels):
                executors = list(dict.fromkeys(home.executor for home in homes))
                if level:
                    self._hints[level] = self._placed([locations[each] for each in executors])
                    # The partition of the pair (executor, task) of a `CartesianRDD`.
                    choosers[level] = [
                        executors.index(home.executor) * len(homes) + number
                        for number, home in enumerate(homes)
                    ]
        self._choosers = [
            {slot: _set_of(jvm, [chosen[task] for task in tasks]) for slot, tasks in group.items()}
            for group, chosen in zip(self.groups, choosers, strict=True)
        ]
        seeds = self._placed([locations.get(home.executor, "") for home in levels[0]])
        self._seeds = self._pruned(0, seeds)

    def frames(self, tasks: Sequence[Mapping[int, PartitionTask]]) -> RDD[Any]:
        """Returns the RDD of the last level's frames.

        Args:
            tasks: By level, the function of each slot; it is given a task's position in its group.
        """
        parts = self._seeds
        for level, width in enumerate(self._widths[1:], 1):
            sides = [
                # What it yields is serialised already.
                self._staged(part, _Sending(tasks[level - 1][slot]), slot, NoOpSerializer())
                for slot, part in parts.items()
            ]
            parts = self._pruned(level, self._shuffled(sides, width))
        writes = self._context.serializer
        last = [self._staged(part, tasks[-1][slot], slot, writes) for slot, part in parts.items()]
        return RDD(self._union(last).toJavaRDD(), self._context, writes)

    def each(
        self,
        tasks: Mapping[int, Callable[[int, Iterable[Any]], Iterator[Any]]],
        lost: Collection[str] = (),
    ) -> RDD[Any]:
        """Returns the RDD of what tasks make of nothing in the worker of each home.

        Args:
            tasks: By slot; each is given the position of a home among those of its slot.
            lost: Executors without whose homes it is done. Spark would wait for them, as long as
                `spark.locality.wait` says.
        """
        writes = self._context.serializer
        parts = []
        for slot, homes in self.homes.items():
            places = zip(homes, self._locations[slot], strict=True)
            living = [location for home, location in places if home.executor not in lost]
            if living:
                parts.append(self._staged(self._placed(living), tasks[slot], slot, writes))
        if not parts:
            return self._context.emptyRDD()
        return RDD(self._union(parts).toJavaRDD(), self._context, writes)

    def _placed(self, locations: Sequence[str]) -> Any:
        """Returns an RDD of one element for each location, which prefers to be there."""
        jvm: Any = self._context._jvm
        to_list = jvm.PythonUtils.toList
        element = bytearray(pickle.dumps([0]))
        pairs = [
            jvm.scala.Tuple2(element, to_list([location] if location else []))
            for location in locations
        ]
        jsc: Any = self._context._jsc
        return jsc.sc().makeRDD(to_list(pairs), self._any_class)

    def _pruned(self, level: int, whole: Any) -> dict[int, Any]:
        """Splits the input of a level into that of each slot."""
        if self._hints[level] is not None:
            whole = self._values(self._hints[level].cartesian(whole, self._any_class))
        return {
            slot: self._pruning.create(whole, chooser)
            for slot, chooser in self._choosers[level].items()
        }

    def _staged(self, part: Any, task: PartitionTask | _Sending, slot: int, writes: Any) -> Any:
        """Returns the JVM's RDD of what tasks make of a part, in the workers of their slot."""
        context = self._context
        pickler: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        command = pickler.dumps((task, None, _READS, writes))
        if len(command) > self._broadcasts.largest_command:
            command = pickler.dumps(self._broadcasts.send(command))
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

    def _shuffled(self, sides: list[Any], width: int) -> Any:
        pairs, tag = self._pairwise_rdd(self._union(sides)), self._any_class
        return self._values(self._shuffled_rdd(pairs, self._partitioners[width], tag, tag, tag))

    def _values(self, pairs: Any) -> Any:
        tag = self._any_class
        return self._python_rdd.valueOfPair(self._java_pair_rdd(pairs, tag, tag)).rdd()


def _by_slot(homes: Sequence[Home]) -> dict[int, list[int]]:
    """Returns the tasks of each slot."""
    groups: dict[int, list[int]] = {}
    for task, home in enumerate(homes):
        groups.setdefault(home.slot, []).append(task)
    return groups


def _set_of(jvm: Any, numbers: Sequence[int]) -> Any:
    """Returns a Scala set: as a function it says whether it holds a number."""
    return jvm.PythonUtils.toList(list(numbers)).toSet()


def has_one_executor(context: SparkContext) -> bool:
    """Whether all tasks run in the driver's own JVM."""
    return str(context.master).startswith("local") and "cluster" not in str(context.master)
