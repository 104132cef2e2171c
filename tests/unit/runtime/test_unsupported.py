"""What a program may say and the runtime cannot do fails before anything runs."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.core.errors import UnsupportedError
from penstock.datastream import StreamExecutionEnvironment


def test_watermark_alignment_behind_a_source_is_refused() -> None:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    aligned = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("group", 1)
    env.from_collection([1]).assign_timestamps_and_watermarks(aligned).print()
    with pytest.raises(UnsupportedError, match="only sources can wait for each other"):
        env.execute()
