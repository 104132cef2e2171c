"""The last operator of a chain that ends in a sink: one writer per epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.errors import PenstockError
from penstock.operators.errors import function_error
from penstock.operators.logic import OperatorLogic

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.runtime.records import JobProgram


class SinkLogic(OperatorLogic):
    """Writes pending output; the driver commits it."""

    def __init__(self, sink: Sink, program: JobProgram) -> None:
        self._sink = sink
        self._program = program
        self._writer: SinkWriter | None = None

    def begin_epoch(self, epoch: int, attempt_id: str) -> None:
        """Drops what an aborted epoch left open; the writer is made when the first record comes."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._epoch = epoch
        program = self._program
        self._attempt_id = (
            f"{program.job_id[:8]}-{program.leader_epoch}.{program.attempt}-{epoch}-{attempt_id}"
        )

    def process(self, batch: Batch, input_index: int = 0) -> None:
        try:
            if self._writer is None:
                self._writer = self._open_writer()
            self._writer.write(batch.values, batch.timestamps, self.watermark)
        except PenstockError:
            raise
        except Exception as error:
            raise function_error(error, self.context) from error

    def _open_writer(self) -> SinkWriter:
        context = self.context
        return self._sink.create_writer(
            WriterContext(
                job_id=self._program.job_id,
                uid=context.uid,
                subtask=context.subtask,
                parallelism=context.parallelism,
                epoch=self._epoch,
                attempt_id=self._attempt_id,
                now_ms=context.clock.now_ms,
                scratch_dir=self._program.state.scratch_directory,
            )
        )

    def prepare_commit(self) -> list[Any]:
        """Returns the committables of the epoch."""
        if self._writer is None:
            return []
        committables = self._writer.prepare_commit()
        self._writer.close()
        self._writer = None
        return committables

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._sink.close()
