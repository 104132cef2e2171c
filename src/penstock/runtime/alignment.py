"""What watermarks wait for: splits for those of their group, and for the end of a micro-batch.

Watermark alignment: splits of a group wait for the slowest, so that nobody runs far ahead.

The driver hears the watermark of every split with the reports of an epoch. The next epoch does not
read those that are more than the allowed drift ahead of their group's minimum, and reads others
until they are: a split overshoots by one read at most. An idle split holds nobody back, one that
has not told a watermark yet holds everybody back: as in Flink, `with_idleness` is for those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, saturating_add

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.graph.job_graph import JobGraph
    from penstock.operators.watermark_strategy import WatermarkAlignment
    from penstock.runtime.records import SubtaskReport
    from penstock.runtime.source_progress import SourceProgress

    Progress = Mapping[str, SourceProgress]
Splits = dict[str, int | None]
"""Watermark by split id; None for idle ones."""


class SplitAlignment:
    """How far the splits of aligned sources are, in one attempt of a job.

    What a restart forgets is known again after one epoch.
    """

    def __init__(self, graph: JobGraph) -> None:
        self._alignments: dict[str, WatermarkAlignment] = {}
        self._uids: dict[int, str] = {}
        for stage in graph.stages:
            if stage.is_source:
                head = stage.operators[0]
                alignment = getattr(head.spec.strategy, "alignment", None)
                if alignment is not None:
                    self._alignments[head.uid] = alignment
                    self._uids[stage.stage_id] = head.uid
        self._splits: dict[tuple[str, int], Splits] = {}

    def heard(self, reports: Iterable[SubtaskReport]) -> None:
        """Takes the reports of an epoch that counts."""
        for report in reports:
            uid = self._uids.get(report.stage_id)
            if uid is not None:
                self._splits[uid, report.subtask] = report.split_watermarks

    def paused(self, uid: str) -> frozenset[str]:
        """Returns the splits of a source that are not to be read now."""
        limit = self.limit(uid)
        if limit is None:
            return frozenset()
        return frozenset(
            split
            for (other, _), splits in self._splits.items()
            if other == uid
            for split, watermark in splits.items()
            if watermark is not None and watermark > limit
        )

    def limit(self, uid: str) -> int | None:
        """Returns the watermark beyond which no split of a source is to be read on."""
        alignment = self._alignments.get(uid)
        if alignment is None:
            return None
        if not self._splits:
            # Nobody has told anything yet: each split tells where it begins.
            return MIN_WATERMARK
        return saturating_add(self._lowest(alignment.group), alignment.max_drift_ms)

    def _lowest(self, group: str) -> int:
        return min(
            (
                watermark
                for (uid, _), splits in self._splits.items()
                if self._alignments[uid].group == group
                for watermark in splits.values()
                if watermark is not None
            ),
            default=MAX_WATERMARK,
        )


class MicroBatches:
    """Which stages are inside a micro-batch of their sources, in one attempt of a job."""

    def __init__(self, graph: JobGraph) -> None:
        self._sources_of: dict[int, frozenset[str]] = {}
        """The sources with micro-batches that a stage reads, near or far."""
        for stage in graph.stages:
            found = {
                uid
                for edge in graph.inputs_of(stage)
                for uid in self._sources_of[edge.source_stage]
            }
            head = stage.operators[0]
            if stage.is_source and head.spec.source.has_micro_batches:
                found.add(head.uid)
            self._sources_of[stage.stage_id] = frozenset(found)
        self._began: set[str] = set()

    def discovered(self, before: Progress, after: Progress) -> None:
        """Takes what a search for splits changed."""
        for uid in frozenset().union(*self._sources_of.values()):
            if after[uid].is_unread and not before[uid].is_unread:
                self._began.add(uid)

    def epoch_counts(self) -> None:
        """What has begun is under way."""
        self._began.clear()

    def place(self, stage_id: int, sources: Progress) -> tuple[bool, bool]:
        """Returns whether the next epoch begins a micro-batch for a stage, and if it reads one."""
        unread = {uid for uid in self._sources_of[stage_id] if sources[uid].is_unread}
        return unread <= self._began, bool(unread)
