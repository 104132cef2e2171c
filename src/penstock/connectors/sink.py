"""The sink contract: write pending output, prepare, then commit or abort. Two-phase by nature.

1. In each epoch a subtask writes; what it writes is invisible to readers and named uniquely per
   attempt (`WriterContext.attempt_id`), so a dead attempt can never overwrite a good one.
2. At the end of the epoch `prepare_commit` returns committables: plain data that names the pending
   output. The driver holds them with the state of the epoch.
3. When the epoch counts (without checkpointing: at once; with it: when the checkpoint that contains
   it completes) the driver calls `commit` with all of them, and again after a recovery: it must be
   idempotent. Output of an epoch that does not count is aborted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle
    from penstock.files.area import FileArea


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer may know."""

    job_id: str  # 32 hex digits.
    uid: str  # Uid of the sink.
    subtask: int  # Index of the subtask.
    parallelism: int
    epoch: int  # The running epoch.
    attempt_id: str  # Unique; part of every pending name.
    now_ms: int  # Processing time of the epoch.
    scratch_dir: str  # A directory for pending data that the driver can read too.
    # Process of the job and attempt in it; with the epoch they name what is written in order.
    attempt: tuple[int, int] = (0, 0)
    # Immutable files, kept as those of state are: `Committer.files` says which a committable names.
    area: FileArea | None = None
    # Within one line, processes of the job follow each other, each from a checkpoint of the one
    # before. A run that starts from elsewhere under the same job id has another line.
    line: str = ""


class SinkWriter(ABC):
    """Writes the output of one subtask in one epoch."""

    @abstractmethod
    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        """Writes records; `watermark` is the current one."""

    @abstractmethod
    def prepare_commit(self) -> list[Any]:
        """Makes what was written durable and returns committables (plain data)."""

    def close(self) -> None:
        """Releases files, also after an error; pending output may stay for `abort` to find."""


@dataclass(frozen=True, slots=True)
class CommitContext:
    """Where and for which epoch a commit happens; runs in the driver."""

    job_id: str  # 32 hex digits.
    uid: str  # Uid of the sink.
    epoch: int  # Last epoch whose output is committed.
    checkpoint_id: int | None  # The checkpoint that made it final, or None without checkpointing.
    final: bool  # The job ends with this commit; nothing may stay open.
    now_ms: int  # Wall time.
    # The SparkSession when there is one (for sinks that write DataFrames), else None.
    spark: Any = None
    # Output that does not count in this job but belongs to a savepoint: a job that starts from that
    # commits it, so it must not be removed.
    kept: tuple[Any, ...] = ()
    # Where the driver reads the files of committables.
    area: FileArea | None = None
    # That of `WriterContext`. A savepoint may name output of an earlier one.
    line: str = ""

    @property
    def run(self) -> str:
        """How the ids of attempts begin that belong to this line of the job."""
        return f"{self.job_id[:8]}{self.line}-"


class Committer(ABC):
    """Makes pending output visible, in the driver."""

    # Whether a job that starts from a snapshot of another one commits what that one owed. Not where
    # repeated output cannot be told from new one, as on a terminal: the job that prepared it shows
    # it before it ends.
    owes_other_jobs: ClassVar[bool] = True
    # What its committables and its state are: a snapshot of another kind is nothing to it.
    kind: ClassVar[str] = ""

    @abstractmethod
    def commit(self, committables: list[Any], context: CommitContext) -> None:
        """Commits; called again with the same committables after a failure."""

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        """Removes pending output that will never count."""

    def files(self, committable: Any) -> Iterable[FileHandle]:
        """Returns the files of `WriterContext.area` that a committable names.

        They are part of each snapshot that names the committable, and are removed when it has been
        committed or aborted.
        """
        return ()

    def snapshot(self) -> Any:
        """Plain data that the committer keeps between commits (an open part file), or None."""
        return None

    def restore(self, state: Any) -> None:
        """Takes back what `snapshot` returned."""

    def close(self) -> None:
        """The job ended."""


class Sink(ABC):
    """A sink; picklable."""

    _default_name: ClassVar[str] = ""

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Makes the writer of one epoch; runs in the worker."""

    @abstractmethod
    def create_committer(self) -> Committer:
        """Makes the committer; runs in the driver, once per job attempt."""

    def close(self) -> None:
        """Releases what writers shared, such as a connection; runs in the worker."""

    def with_settings(self, settings: Mapping[str, str]) -> Sink:
        """Returns the sink with the settings of the job; most sinks do not care."""
        return self

    def with_text(self, text: Callable[[Any], str]) -> Sink:
        """Returns the sink for a stream whose type says what the text of its records is."""
        return self

    def default_name(self) -> str:
        """Name of the operator unless the program gives one."""
        return self._default_name or f"Sink: {type(self).__name__}"


class NothingToCommit(Committer):
    """The committer of sinks whose output is visible at once."""

    kind = "none"

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        assert not committables, "output that is visible at once leaves nothing to commit"


class DirectSink(Sink):
    """Base of sinks that write at once, through one client for all writers of a worker."""

    _client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    @abstractmethod
    def connect(self) -> Any:
        """Makes the client, which has `close`."""

    def client(self) -> Any:
        """Returns the client of this worker."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class BatchWriter(SinkWriter):
    """Sends records in batches, and at the end of the epoch what is left.

    Args:
        send: Takes a batch.
        size: How many are one batch.
        made: Makes of records what is sent.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], object],
        size: int,
        made: Callable[[list[Any]], list[Any]] = list,
    ) -> None:
        self._send = send
        self._size = size
        self._made = made
        self._held: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        self._held += self._made(values)
        whole = len(self._held) - len(self._held) % self._size
        for start in range(0, whole, self._size):
            self._send(self._held[start : start + self._size])
        del self._held[:whole]

    def prepare_commit(self) -> list[Any]:
        if self._held:
            self._send(self._held)
            self._held = []
        return []


class DeliveryGuarantee(Enum):
    """How often a record may reach the target."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"
