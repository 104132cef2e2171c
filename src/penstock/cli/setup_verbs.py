"""`penstock new`, `demo`, `completion`, `jobmanager`: what you begin with."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from penstock.cli.report import WrongUsageError, did_you_mean
from penstock.cli.verb import Verb, asked, output_options, setting_option

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
def new_verb(folder: Path) -> None:
    """Create a folder with a program, a test and a settings file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsageError(f"{folder} is there and not empty; name a folder that is not.")
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NAME", folder.resolve().name), encoding="utf-8")
        click.echo(f"{path}")
    click.echo(f"Run it with: cd {folder} && python job.py")


@click.command(
    "demo",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo_verb(arguments: tuple[str, ...]) -> None:
    """Run the demo job, which counts late, out-of-order events in one-minute windows."""
    sys.argv = ["penstock demo", *arguments]
    runpy.run_module("penstock.demo", run_name="__main__")


_SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="""\b
Put one of these lines into the start-up file of your shell:
  bash   eval "$(penstock completion bash)"
  zsh    eval "$(penstock completion zsh)"
  fish   penstock completion fish | source""",
)
@click.argument("shell", metavar="bash|zsh|fish")
@click.pass_context
def completion_verb(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        raise WrongUsageError(
            f'"{shell}" is not a shell; it must be bash, zsh or fish.{did_you_mean(shell, _SHELLS)}'
        )
    group = ctx.find_root().command
    completion = kind(group, {}, "penstock", "_PENSTOCK_COMPLETE")
    click.echo(completion.source())


@click.command(
    "jobmanager",
    cls=Verb,
    epilog="""\b
Examples:
  penstock jobmanager                  then, in another terminal: penstock run -d app.py
  penstock jobmanager --port 8082 -D penstock.spark.master=spark://host:7077
  PENSTOCK_CONF_DIR=/etc/penstock penstock jobmanager

\b
Stop it with Ctrl-C or SIGTERM. Jobs keep running, and the next job manager takes them over.""",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on (rest.bind-address).")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on (rest.port); 0 for a free one.",
)
@setting_option
@output_options
def jobmanager_verb(host: str | None, port: int | None, **options: Any) -> None:
    """Run the job manager, which runs and restarts jobs and serves REST and the web page.

    It listens on this machine only, unless you set another address and a token file.
    """
    given = asked(options)
    from penstock.launch.service import run_job_manager

    run_job_manager(given.configuration(), host, port)
