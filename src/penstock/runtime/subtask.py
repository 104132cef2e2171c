"""One subtask: the operators of a stage, run for one epoch at a time.

    run_epoch(version, watermarks, frames or splits) -> (new version, frames, report)

A subtask is kept between epochs as a cache. It says which version it holds; when a plan names
another one, state, timers and logics are restored in place, and what an aborted epoch did is gone.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.core.copies import snapshot, unchanged
from penstock.core.fault_points import fault_span
from penstock.core.keygroups import key_group_range
from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, EpochClock
from penstock.graph.nodes import NodeKind
from penstock.operators.errors import describe_exception
from penstock.operators.logic import MetricGroup, OperatorContext, OperatorLogic, OperatorTimers
from penstock.operators.source_watermarks import WatermarkValve
from penstock.runtime.chain import ChainOutput, RunningOperator, repeat_progress
from penstock.runtime.exchange import (
    ExchangeWriter,
    Frame,
    FrameKind,
    decode_batch,
    make_writer,
    reading_order,
)
from penstock.runtime.partitioners import make_partitioner
from penstock.runtime.records import (
    EpochPlan,
    JobProgram,
    OperatorMetrics,
    OperatorVersion,
    SubtaskPlan,
    SubtaskReport,
    SubtaskVersion,
)
from penstock.runtime.sinks import SinkLogic
from penstock.runtime.source_logic import SourceLogic
from penstock.runtime.state_files import open_area
from penstock.runtime.transfers import TRANSFERS, keep_house
from penstock.state.backend import create_backend
from penstock.state.operator_snapshot import (
    encode_logic,
    facts_of,
    read_logic,
    schemas_of,
    write_states,
)
from penstock.state.operator_state import OperatorState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.handles import FileHandle
    from penstock.core.records import Batch
    from penstock.graph.job_graph import ChainedOperator, Stage
    from penstock.runtime.lowering import SinkSpec
    from penstock.state.keyed import KeyedState

_log = logging.getLogger("penstock.operators")
_COMMIT = fault_span("state.commit")
FIRING_MS: Final = 300
"""How long the timers of one subtask fire in one epoch, where the rest can wait."""

HELD_BYTES: Final = 16 << 20
"""About so many bytes of frames a subtask holds before it hands them on."""

MOST_AT_ONCE: Final = 1 << 20
"""Records of a batch that are processed at once, however little they emit."""


class Subtask:
    """The running form of one subtask of a stage."""

    def __init__(self, program: JobProgram, stage: Stage, index: int) -> None:
        self._program = program
        self._stage = stage
        self._index = index
        self._clock = EpochClock()
        self._snapshot = unchanged if program.object_reuse else snapshot
        self._area = open_area(program)
        self._held: str | None = None
        self._frames: list[Frame] = []
        self._inputs = sorted(program.graph.inputs_of(stage), key=reading_order)
        self._channels = self._number_channels()
        self._valves: list[WatermarkValve] = []
        # The watermark that the first operator has taken while timers up to it are left.
        self._pending: int | None = None
        self._valve_inputs = sorted({edge.input_index for edge in self._inputs})
        self._writers: list[ExchangeWriter] = []
        self._chain = [self._running(operator) for operator in stage.operators]
        self._head = self._chain[0]
        self._wire()
        if isinstance(self._head.logic, SourceLogic):
            self._head.logic.at_once = max(each.logic.at_once for each in self._chain)
        self._opened: list[OperatorLogic] = []
        self._portion = 1
        """Records of a batch to process before frames are handed on."""

    # -- building -----------------------------------------------------------------------------

    def _running(self, operator: ChainedOperator) -> RunningOperator:
        output = ChainOutput(self._program.object_reuse)
        return RunningOperator(operator, self._build(operator), self._context(operator), output)

    def _build(self, operator: ChainedOperator) -> OperatorLogic:
        if operator.kind is NodeKind.SOURCE:
            return SourceLogic(operator.spec)
        if operator.kind is NodeKind.SINK:
            return SinkLogic(cast("SinkSpec", operator.spec).sink, self._program, self._area)
        return cast("OperatorLogic", operator.spec.build())

    def _wire(self) -> None:
        for each in self._chain:
            if each.operator.producer is not None:
                producer = self._chain[each.operator.producer]
                producer.output.add_operator(each, each.operator.side_tag)
            each.logic.setup(each.context, each.output)
        stages = self._program.graph.stages
        for edge in self._program.graph.outputs_of(self._stage):
            target = stages[edge.target_stage]
            partitioner = make_partitioner(
                edge.partitioning,
                subtask=self._index,
                parallelism=self._stage.parallelism,
                targets=target.parallelism,
                max_parallelism=target.max_parallelism,
                name=target.operators[0].name,
            )
            writer = make_writer(edge, partitioner, target.parallelism, self._index)
            self._writers.append(writer)
            self._chain[edge.source_operator].output.add_exchange(writer, edge.side_tag)

    def _context(self, operator: ChainedOperator) -> OperatorContext:
        stage, program = self._stage, self._program
        keyed: KeyedState | None = None
        if operator.kind is NodeKind.OPERATOR and operator.spec.is_keyed:
            first, last = key_group_range(self._index, stage.parallelism, stage.max_parallelism)
            own = program.state
            backend = create_backend(own.backend, pickles=own.pickles, **dict(own.options))
            keyed = backend.create_state(
                first, last, stage.max_parallelism, self._area, self._clock, operator.uid
            )
            keyed.snapshot = self._snapshot
        return OperatorContext(
            uid=operator.uid,
            name=operator.name,
            subtask=self._index,
            parallelism=stage.parallelism,
            max_parallelism=stage.max_parallelism,
            attempt=program.attempt,
            clock=self._clock,
            keyed_state=keyed,
            timers=None if keyed is None else OperatorTimers(keyed, self._clock),
            operator_state=OperatorState(operator.uid, program.state.pickles, self._snapshot),
            metrics=MetricGroup(),
            parameters=dict(program.parameters),
            snapshot=self._snapshot,
        )

    def _number_channels(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Returns (valve, channel of the valve) by edge and sending subtask."""
        channels: dict[tuple[int, int], tuple[int, int]] = {}
        indexes = sorted({edge.input_index for edge in self._inputs})
        counts = dict.fromkeys(indexes, 0)
        for edge in self._inputs:
            for sender in range(self._program.graph.stages[edge.source_stage].parallelism):
                channels[edge.edge_id, sender] = (
                    indexes.index(edge.input_index),
                    counts[edge.input_index],
                )
                counts[edge.input_index] += 1
        self._channel_counts = [counts[index] for index in indexes]
        return channels

    # -- one epoch ----------------------------------------------------------------------------

    def run(
        self, plan: EpochPlan, mine: SubtaskPlan, frames: list[Frame], attempt: int
    ) -> Iterator[Frame | SubtaskReport]:
        """Runs one epoch; yields frames as they come and the report last."""
        report = SubtaskReport(self._stage.stage_id, self._index, attempt)
        self._frames.clear()
        # State that has a time to live only now counts as accessed when it is restored.
        self._clock.now_ms = plan.now_ms
        if mine.version is not None:
            report.held = mine.version.version_id == self._held
        self._restore(mine.version)
        # Uploads begin, beside the records.
        TRANSFERS.attend(self._program, self._area, (report.stage_id, self._index), mine.errand)
        # What open() and a restore take says nothing of the records.
        started = time.perf_counter()
        self._held = None
        self._begin(plan, attempt)
        if mine.version is not None and mine.version.is_restored:
            is_idle = self._valve.told_idle and self._pending is None
            repeat_progress(self._chain, is_idle)
        self._bound_firing(is_bounded=True)
        self._clock.mid_batch = mine.mid_batch and not mine.begins_batch
        for each in self._chain:
            each.logic.advance_processing_time(plan.now_ms)
        self._clock.mid_batch = mine.mid_batch
        if self._stage.is_source:
            assert mine.source is not None
            source = cast("SourceLogic", self._head.logic)
            for _ in source.read(mine.source, report):
                yield from self._drained(report)
        else:
            for _ in self._consume(frames, report):
                yield from self._drained(report)
        for each in self._chain:
            each.logic.end_of_epoch()
        for writer in self._writers:
            writer.flush()
        flushed = time.perf_counter()
        with _COMMIT:
            self._finish(plan, attempt, report)
        report.commit_ms = (time.perf_counter() - flushed) * 1000
        report.busy_ms = (time.perf_counter() - started) * 1000
        yield from self._drained(report)
        yield report

    def _drained(self, report: SubtaskReport) -> list[Frame]:
        drained = self._frames[:]
        self._frames.clear()
        report.bytes_sent += sum(
            len(frame.payload) for frame in drained if frame.kind == FrameKind.DATA
        )
        return drained

    def _begin(self, plan: EpochPlan, attempt: int) -> None:
        for writer in self._writers:
            writer.begin_epoch(plan.epoch, attempt, self._frames)
        for each in self._chain:
            each.output.metrics = OperatorMetrics()
            each.context.metrics.begin_epoch()
            if each.context.timers is not None:
                each.context.timers.fired = 0
            if isinstance(each.logic, SinkLogic):
                each.logic.begin_epoch(plan.epoch, f"{attempt}")

    def _bound_firing(self, *, is_bounded: bool) -> None:
        """Says whether timers of the first operator may be left for the next epoch."""
        timers = self._head.context.timers
        if timers is not None:
            timers.slice_ends = time.perf_counter() + FIRING_MS / 1000 if is_bounded else None

    def _consume(self, frames: list[Frame], report: SubtaskReport) -> Iterator[None]:
        order = {edge.edge_id: position for position, edge in enumerate(self._inputs)}
        edges = {edge.edge_id: edge for edge in self._inputs}
        frames.sort(key=lambda frame: (order[frame.edge], frame.channel, frame.sequence))
        records = [index for index, frame in enumerate(frames) if frame.kind == FrameKind.DATA]
        last = records[-1] if records else -1
        # Records that are here already cannot wait, and come behind the timers.
        self._bound_firing(is_bounded=last < 0)
        if self._pending is not None:
            self._advance(self._pending)
            yield
        for position, frame in enumerate(frames):
            if position == last + 1 and position > 0:
                self._bound_firing(is_bounded=True)
            edge = edges[frame.edge]
            report.consumed[edge.source_stage, frame.channel] = frame.attempt
            if frame.kind == FrameKind.DATA:
                # The payload is done with; a large epoch must not be in memory twice.
                frames[position] = frame._replace(payload=None)
                yield from self._process(decode_batch(frame.payload), edge.input_index, report)
            else:
                self._signal(frame)
                yield

    def _process(self, batch: Batch, input_index: int, report: SubtaskReport) -> Iterator[None]:
        """Processes a batch in portions after which frames are handed on, if they are large.

        A function may emit a million records for each of its input.
        """
        start, count = 0, len(batch)
        while start < count:
            sent, end = report.bytes_sent, min(count, start + self._portion)
            self._clock.mid_read = end < count
            part = batch if end - start == count else batch.part(start, end)
            self._head.process(part, input_index)
            yield
            fitting = HELD_BYTES * (end - start) // max(report.bytes_sent - sent, 1)
            self._portion = max(1, min(fitting, self._portion * 8, MOST_AT_ONCE))
            start = end

    def _signal(self, frame: Frame) -> None:
        """Takes a watermark or status change of one channel."""
        number, channel = self._channels[frame.edge, frame.channel]
        valve = self._valves[number]
        if frame.kind == FrameKind.WATERMARK:
            watermark = valve.advance(channel, frame.payload)
        else:
            watermark = valve.set_idle_quietly(channel, idle=frame.kind == FrameKind.IDLE)
        status = valve.status_change()
        if len(self._valves) > 1:
            outer = self._valves_joined
            if watermark is not None:
                watermark = outer.advance(number, watermark)
            if status is not None:
                held = outer.set_idle_quietly(number, idle=status)
                watermark = held if watermark is None else watermark
            status = outer.status_change()
        # Idle comes behind the watermark that it lets go, active before the one it brings.
        if status is False:
            self._head.logic.advance_input_status(idle=False)
        if watermark is not None:
            self._advance(watermark)
        elif status and self._pending is None:
            self._head.logic.advance_input_status(idle=True)

    def _advance(self, watermark: int) -> None:
        """Hands a watermark to the first operator; idle comes behind what it lets go."""
        head = self._head
        head.advance_watermark(watermark)
        is_left = head.context.timers is not None and head.logic.watermark != watermark
        self._pending = watermark if is_left else None
        if not is_left and self._valve.told_idle:
            head.logic.advance_input_status(idle=True)

    @property
    def _valve(self) -> WatermarkValve:
        """What the watermark of the whole subtask comes from."""
        return self._valves[0] if len(self._valves) == 1 else self._valves_joined

    def _finish(self, plan: EpochPlan, attempt: int, report: SubtaskReport) -> None:
        """Commits state and fills in the report."""
        stage = self._stage
        program = self._program
        pickles = program.state.pickles
        # Unique: jobs have new ids, their attempts count up, and so do Spark's in each.
        version_id = f"{program.run_name}e{plan.epoch}-s{stage.stage_id}-{self._index}-a{attempt}"
        operators: dict[str, OperatorVersion] = {}
        timers: list[int] = []
        for each in self._chain:
            logic, context, metrics = each.logic, each.context, each.output.metrics
            name = f"{version_id}-{each.operator.node_id}"
            operators[context.uid] = OperatorVersion(
                () if context.keyed_state is None else (context.keyed_state.commit(name),),
                (self._write_logic(name, logic, context),),
                (write_states(context.operator_state, self._area, name, pickles, context.uid),),
                facts_of(context.keyed_state, context.operator_state),
            )
            due = logic.next_processing_timer()
            if due is not None:
                timers.append(due)
            if isinstance(logic, SinkLogic):
                report.committables[context.uid] = logic.prepare_commit()
            metrics.watermark_in = logic.watermark
            metrics.watermark_out = each.output.watermark
            metrics.fired_timers = 0 if context.timers is None else context.timers.fired
            metrics.user = context.metrics.report()
            report.metrics[context.uid] = metrics
        report.version = SubtaskVersion(version_id, operators)
        report.next_timer_ms = min(timers, default=None)
        report.watermark = self._head.logic.watermark
        if not stage.is_source:
            report.input_ended = report.watermark == MAX_WATERMARK
        report.is_firing = self._pending is not None
        self._held = version_id
        keep_house(program, self._area, plan, report)

    # -- state that is not keyed --------------------------------------------------------------

    def _write_logic(self, name: str, logic: OperatorLogic, context: OperatorContext) -> FileHandle:
        valves: list[Any] | None = None
        if logic is self._head.logic:
            valves = [valve.snapshot() for valve in (*self._valves, self._valves_joined)]
            valves.append(self._pending)
        # The logic comes first, since a function puts its state into the store meanwhile.
        own, pickles = logic.snapshot(), self._program.state.pickles
        data = encode_logic(logic.watermark, own, valves, pickles, context.uid)
        return self._area.write(f"{name}.logic", data)

    def _restore(self, version: SubtaskVersion | None) -> None:
        """Brings the subtask to a version; free when it already holds it."""
        if not self._opened:
            for each in self._chain:
                self._opened.append(each.logic)
                each.logic.open()
        elif version is not None and version.version_id == self._held:
            return
        TRANSFERS.fetch(self._program, self._area, version)
        self._valves = [WatermarkValve(count) for count in self._channel_counts]
        self._valves_joined = WatermarkValve(max(1, len(self._valve_inputs)))
        self._pending = None
        for each in self._chain:
            logic, context = each.logic, each.context
            found = None if version is None else version.operators.get(context.uid)
            saved = []
            if found is not None:
                pickles = self._program.state.pickles
                saved = read_logic(found.logic, found.lists, self._area, pickles)
            if context.keyed_state is not None:
                context.keyed_state.restore(found.keyed if found else ())
            is_restored = version is not None and version.is_restored
            place = (self._index, self._stage.parallelism) if is_restored else (0, 1)
            lists = [old.operator_state for old in saved]
            # What comes of a checkpoint may be distributed again, and is written again.
            files = saved[0].files if saved and not is_restored else {}
            context.operator_state.restore(lists, *place, schemas_of(saved), files)
            # After rescaling no subtask is further than the slowest one was.
            logic.watermark = min((old.watermark for old in saved), default=MIN_WATERMARK)
            if context.timers is not None:
                context.timers.restore_watermark(logic.watermark)
            same = self._index if len(saved) == self._stage.parallelism else None
            if len(saved) == 1 and not is_restored:
                logic.restore(saved[0].logic)
            elif same is not None:
                logic.watermark = saved[same].watermark
                logic.restore(saved[same].logic)
            else:
                logic.restore_rescaled([old.logic for old in saved])
            each.output.watermark = logic.watermark
            if each is self._head and saved:
                is_merged = same is None and len(saved) > 1
                self._restore_valves([old.valves for old in saved], same or 0, is_merged)

    def _restore_valves(self, saved: list[list[Any] | None], mine: int, is_merged: bool) -> None:
        valves = saved[mine]
        if valves is None or len(valves) != len(self._valves) + 2:
            return
        *held, self._pending = valves
        if is_merged and any(each is not None and each[-1] is not None for each in saved):
            # Timers are left at different times: all valves open again, where the slowest was.
            self._pending = None
            held = [(self._head.logic.watermark, False, False, [])] * len(held)
        for valve, state in zip((*self._valves, self._valves_joined), held, strict=True):
            valve.restore(state)

    def close(self) -> None:
        """Closes every operator, also after a failure, which errors here must not hide."""
        for logic in self._opened:
            try:
                logic.close()
            except Exception as error:
                name, text = logic.context.name, describe_exception(error)
                _log.warning("close() of operator '%s' failed:\n%s", name, text)
