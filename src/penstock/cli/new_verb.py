"""`penstock new`: a folder with a program, its test and its settings, which run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from penstock.cli.failures import WrongUsageError

_JOB: Final = '''\
"""Counts words: `python job.py`, or `penstock run job.py`."""

from penstock.common import Types
from penstock.datastream import DataStream, StreamExecutionEnvironment

WORDS = "to be or not to be that is the question".split()


def count(words: DataStream) -> DataStream:
    """Gives the number of each word so far."""
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    return (
        words.map(lambda word: (word, 1), pair)
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
        .name("count")
        .uid("count")
    )


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(WORDS, Types.STRING()).uid("words")
    count(words).print()
    env.execute("NAME")


if __name__ == "__main__":
    main()
'''
_TEST: Final = '''\
"""Runs the program's operators in this process, without Java: `pytest`."""

from job import count

from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment


def test_count() -> None:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.from_collection(["a", "b", "a"], Types.STRING())
    with count(words).execute_and_collect() as results:
        assert sorted(results) == [("a", 1), ("a", 2), ("b", 1)]
'''
_SETTINGS: Final = """\
# Settings of this folder's program; `penstock config` lists all there are.
# `in-process` needs no Java. For Spark: local[2], or spark://host:7077.
penstock.spark.master: in-process
# Once the program has state that must not be lost, on storage that outlives the machine:
# execution.checkpointing.interval: 10 s
# execution.checkpointing.dir: s3://bucket/checkpoints
"""
_FILES: Final = {"job.py": _JOB, "test_job.py": _TEST, "conf/config.yaml": _SETTINGS}


@click.command("new", epilog="\b\nExample:\n  penstock new counts")
@click.argument("folder", type=click.Path(path_type=Path))
def verb(folder: Path) -> None:
    """Make a folder with a program, its test and its settings."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsageError(f"{folder} is there and not empty; name a folder that is not.")
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NAME", folder.resolve().name), encoding="utf-8")
        click.echo(f"{path}")
    click.echo(f"Run it with: cd {folder} && python job.py")
