"""Watermark alignment: splits of a group wait for the slowest, so that nobody runs far ahead.

The driver hears the watermark of every split with the reports of an epoch. The next epoch does not
read those that are more than the allowed drift ahead of their group's minimum, and reads others
until they are: a split overshoots by one read at most. An idle split holds nobody back, one that
has not told a watermark yet holds everybody back: as in Flink, `with_idleness` is for those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK, saturating_add

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.graph.job_graph import JobGraph
    from penstock.operators.watermarks import WatermarkAlignment
    from penstock.runtime.records import SubtaskReport

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
