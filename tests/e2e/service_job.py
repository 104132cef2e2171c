"""A job for the tests of the job manager; run as a program, it knows nothing of the test.

It reads as far as the number in the file `gate` says, so that a test decides how far it gets.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from penstock.common import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, PythonSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor


class Numbers(PythonSource):
    """0, 1, 2 …"""

    bounded = True

    def __init__(self, directory: Path, end: int) -> None:
        self.gate = directory / "gate"
        self.end = end

    def splits(self) -> list[str]:
        return ["0"]

    def end_offset(self, split: str) -> int:
        return self.end

    def latest_offset(self, split: str) -> int:
        return int(self.gate.read_text())

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


class Numbered(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()},{count},{value}"


def main(directory: Path, end: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    numbers = env.add_source(Numbers(directory, end)).uid("numbers")
    numbered = numbers.key_by(lambda value: value % 7).process(Numbered()).uid("numbered")
    numbered.sink_to(sink).uid("out")
    print("counting")
    env.execute("numbers")
    print("counted", end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
