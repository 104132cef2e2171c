"""What travels between the driver and the subtasks in one epoch: plans down, reports up.

JobProgram     once per job attempt, as a broadcast
EpochPlan      once per epoch and level: versions, splits, the clock
SubtaskReport  once per subtask and epoch: the new version, counts, committables, or an error
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.times import MIN_WATERMARK
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from penstock.connectors.source import Budget, Split
    from penstock.core.errors import PenstockError
    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.graph.job_graph import JobGraph
    from penstock.state.evolution import StateFacts

SubtaskKey = tuple[int, int]
"""Stage id and subtask index."""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where and how state is kept.

    Attributes:
        backend: `hashmap` or `rocksdb`.
        directory: Directory of this job's state files; every worker sees it unless `stays`.
        scratch_directory: Where sinks keep pending output that the driver reads too.
        inline_threshold_bytes: Up to this size, bytes travel in the handle.
        stays: Whether state files stay with the executor that wrote them, in a directory of its
            own: it uploads them for checkpoints, and no other one reads them.
        pickles: Whether state may be pickled.
        options: Settings of the backend itself.
        storage: Settings of checkpoint storage, for workers that read and write it themselves.
    """

    backend: str
    directory: str
    scratch_directory: str
    inline_threshold_bytes: int = 20 * 1024
    stays: bool = False
    pickles: Pickles = Pickles.ALLOW
    options: tuple[tuple[str, Any], ...] = ()
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class JobProgram:
    """Everything about a job attempt that does not change from epoch to epoch.

    Attributes:
        job_id: 32 hex digits.
        attempt: Number of the attempt, from 0.
        graph: What to run.
        state: Where state lives.
        parameters: The job's global parameters, shown to functions.
        leader_epoch: Rises with every process of the job, each of which counts attempts from 0.
        object_reuse: Whether functions leave alone what they emitted, so that nothing is copied.
        target_ms: How long an epoch should take.
        kept: Names of the state files that the attempt starts from, where files stay with
            executors: all others that are left there may go.
        line: Part of what sinks call their output, so that marks in their targets never speak
            of other runs under the same job id.
    """

    job_id: str
    attempt: int
    graph: JobGraph
    state: StateSettings
    parameters: tuple[tuple[str, str], ...] = ()
    leader_epoch: int = 1
    object_reuse: bool = False
    target_ms: int = 1_000
    kept: frozenset[str] = field(default=frozenset(), repr=False)
    line: str = ""

    @property
    def run_name(self) -> str:
        """Begins the names of files of this attempt, and of no other in the same directory."""
        return f"{self.job_id[:8]}.{self.attempt}-"

    @property
    def cache_key(self) -> tuple[str, int]:
        """Names the attempt in a worker's cache."""
        return self.job_id, self.attempt


@dataclass(frozen=True, slots=True)
class OperatorVersion:
    """State of one operator in one subtask.

    Attributes:
        keyed: Its keyed state; several versions after rescaling, each holding a part.
        logic: Watermarks, generators and the like, usually inline. One, or after a restore one for
            every former subtask.
        lists: Files of operator state, in step with `logic`; they stay while the state does. All of
            a state comes before its changes.
        states: What there is to say about each state, for those who cannot look.
    """

    keyed: tuple[KeyedStateVersion, ...]
    logic: tuple[FileHandle, ...]
    lists: tuple[tuple[FileHandle, ...], ...]
    states: tuple[StateFacts, ...] = ()

    @property
    def files(self) -> tuple[FileHandle, ...]:
        """Every handle."""
        keyed = tuple(handle for version in self.keyed for handle in version.files)
        return keyed + self.logic + tuple(handle for files in self.lists for handle in files)


@dataclass(frozen=True, slots=True)
class SubtaskVersion:
    """State of one subtask after an epoch: a value, made of immutable files.

    Attributes:
        version_id: Unique over all attempts; names epoch, subtask and attempt.
        operators: State by uid; operators that are missing start empty.
        is_restored: It comes from a checkpoint, perhaps of other parallelism, and was not written
            by a subtask of this run.
        places: URLs of files by name, where workers fetch them from the checkpoint themselves.
    """

    version_id: str
    operators: dict[str, OperatorVersion]
    is_restored: bool = False
    places: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[FileHandle, ...]:
        """Every handle."""
        return tuple(handle for version in self.operators.values() for handle in version.files)


@dataclass(frozen=True, slots=True)
class SourceAssignment:
    """What a source subtask reads in this epoch.

    Attributes:
        splits: Its unfinished splits with their positions, in reading order.
        budget: Bound for all of them together.
        is_last: No split will follow: when these are finished, the input has ended.
        stop: Read nothing and end the input now, for stop with drain.
        paused: Splits that are too far ahead of their alignment group to be read.
        limit: No split is read on once its watermark is beyond it; None without alignment.
    """

    splits: tuple[tuple[Split, Any], ...]
    budget: Budget
    is_last: bool = False
    stop: bool = False
    paused: frozenset[str] = frozenset()
    limit: int | None = None


class Order(NamedTuple):
    """A file to bring to checkpoint storage, by the worker that holds it."""

    number: int  # Names the order; it is repeated until there is an answer.
    file: FileHandle
    url: str  # Absolute place; empty: its bytes go to the driver.


class Delivery(NamedTuple):
    """What came of an order."""

    number: int
    error: str = ""  # Empty if the file is durable.
    data: bytes = b""  # Its bytes, if these were asked for.


class Errand(NamedTuple):
    """What a subtask does about its local files besides its epoch."""

    orders: tuple[Order, ...] = ()
    gone: tuple[str, ...] = ()  # Names of files that nothing needs any more.


@dataclass(frozen=True, slots=True)
class SubtaskPlan:
    """One subtask's part of an epoch.

    Attributes:
        version: State to start from; None at the very first epoch.
        source: For source stages.
        begins_batch: The micro-batch before is over: watermarks that waited for that go out first.
        mid_batch: This epoch reads a micro-batch, so watermarks that rise in it wait.
        errand: What it does about its local files, where these stay with the executor.
    """

    version: SubtaskVersion | None
    source: SourceAssignment | None = None
    begins_batch: bool = False
    mid_batch: bool = False
    errand: Errand | None = None


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch.

    Attributes:
        epoch: Number of the epoch, from 1; never repeats within a job.
        try_number: Counts runs of the same epoch after an inconsistent one.
        now_ms: Processing time of the whole epoch.
        subtasks: Plans by stage and subtask.
    """

    epoch: int
    try_number: int
    now_ms: int
    subtasks: dict[SubtaskKey, SubtaskPlan]


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """Times of an epoch that the figures of a checkpoint show.

    Attributes:
        ended_ms: Wall time of its end.
        flush_ms: How long each subtask took to flush its state.
    """

    ended_ms: int = 0
    flush_ms: dict[SubtaskKey, float] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorMetrics:
    """Counts of one operator in one epoch.

    Attributes:
        records_in: Records it took.
        records_out: Records of its main output.
        fired_timers: Timers that came due.
        watermark_in: Its own watermark at the end of the epoch.
        watermark_out: What those behind it were told last.
        user: Its metrics as `MetricGroup.report` tells them.
    """

    records_in: int = 0
    records_out: int = 0
    fired_timers: int = 0
    watermark_in: int = MIN_WATERMARK
    watermark_out: int = MIN_WATERMARK
    user: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SubtaskReport:
    """Result of one subtask in one epoch.

    Attributes:
        stage_id: Which stage.
        subtask: Which subtask of it.
        attempt_id: The attempt that wrote this, of a task that may run several subtasks.
        consumed: Attempt of each upstream subtask whose frames were read.
        version: The new state; None with an error.
        positions: For sources: split id to next position.
        finished_splits: For sources: splits that ended.
        backlog: For sources: more could be read at once.
        cut_short: For sources: time or bytes were over before the records that it might read.
        records_read: For sources: how many records this epoch read.
        bytes_read: For sources: about how many bytes these had.
        bytes_sent: Bytes of the frames for other stages, and of this report.
        split_watermarks: For sources that are aligned: by split id; None for idle splits.
        input_ended: The MAX watermark passed.
        watermark: Watermark at the end of the epoch, of the first operator.
        next_timer_ms: When a processing timer is due, or None.
        is_firing: Event timers that are due are left for the next epoch.
        committables: Pending sink output by uid.
        metrics: By uid.
        busy_ms: Time spent inside the subtask, once it was open and restored.
        commit_ms: The part of it that the commit of the state took.
        retries: How often the task was tried before, in vain; 0 but in its first report.
        held: Whether the worker still held the version that the plan names; None without one.
        home: Where the driver wanted the subtask to run; empty where it has no say.
        worker_bytes: Memory of the worker process when its task began, on a cluster.
        deliveries: What came of the orders in the plan, as far as that is known.
        error: What the driver raises, or None.
    """

    stage_id: int
    subtask: int
    attempt_id: int
    consumed: dict[SubtaskKey, int] = field(default_factory=dict)
    version: SubtaskVersion | None = None
    positions: dict[str, Any] = field(default_factory=dict)
    finished_splits: list[str] = field(default_factory=list)
    backlog: bool = False
    cut_short: bool = False
    records_read: int = 0
    bytes_read: int = 0
    bytes_sent: int = 0
    split_watermarks: dict[str, int | None] = field(default_factory=dict)
    input_ended: bool = False
    watermark: int = 0
    next_timer_ms: int | None = None
    is_firing: bool = False
    committables: dict[str, list[Any]] = field(default_factory=dict)
    metrics: dict[str, OperatorMetrics] = field(default_factory=dict)
    busy_ms: float = 0.0
    commit_ms: float = 0.0
    retries: int = 0
    held: bool | None = None
    home: str = ""
    worker_bytes: int = 0
    deliveries: list[Delivery] = field(default_factory=list)
    error: PenstockError | None = None
