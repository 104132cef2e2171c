"""Reads lines from files, keeps a running total per shop, writes files; exactly once."""

import sys
import tempfile
from pathlib import Path

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat


def main(folder: str) -> None:
    sales = Path(folder, "sales")
    sales.mkdir()
    (sales / "monday.txt").write_text("north,10\nsouth,5\nnorth,7\n")
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", f"{folder}/checkpoints")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(1_000)
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(sales))
    totals = FileSink.for_row_format(f"{folder}/totals", Encoder.simple_string_encoder())
    (
        env.from_source(lines.build(), WatermarkStrategy.no_watermarks(), "sales")
        .uid("sales")
        .map(lambda line: (line.split(",")[0], int(line.split(",")[1])))
        .key_by(lambda sale: sale[0])
        .sum(1)
        .uid("totals")
        .map(lambda sale: f"{sale[0]}\t{sale[1]}")
        .sink_to(totals.build())
    )
    env.execute("totals per shop")
    for part in sorted(Path(folder, "totals").rglob("part-*")):
        print(part.read_text(), end="")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
