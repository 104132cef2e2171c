"""Every command line in the documentation, and every example in the help, is one that parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from penstock.cli.main import penstock

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands_in(text: str) -> list[str]:
    """Command lines of the blocks ```sh, and of the examples in a help text."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("penstock ")]


def examples_of(verb: click.Command) -> list[str]:
    lines = [line.strip() for line in (verb.epilog or "").splitlines()]
    found = [re.split(r"\s{2,}|\s\||\s>", line)[0] for line in lines]
    return [line for line in found if line.startswith("penstock ")]


def verbs() -> list[click.Command]:
    context = click.Context(penstock)
    found = [penstock.get_command(context, name) for name in penstock.list_commands(context)]
    inner = [
        each for verb in found if isinstance(verb, click.Group) for each in verb.commands.values()
    ]
    return [verb for verb in (*found, *inner) if verb is not None]


LINES = sorted(
    {line for page in PAGES for line in commands_in(page.read_text(encoding="utf-8"))}
    | {line for verb in verbs() for line in examples_of(verb)}
)


def test_there_are_some() -> None:
    assert len(LINES) > 30


@pytest.mark.parametrize("line", LINES)
def test_command_line_parses(line: str) -> None:
    words = shlex.split(line.replace("…", "x"), comments=True)[1:]
    words = words[: words.index("|")] if "|" in words else words
    group: click.Group = penstock
    parent = click.Context(penstock, info_name="penstock", **penstock.context_settings)
    while True:
        verb = group.get_command(parent, words[0])
        assert verb is not None, words
        if not isinstance(verb, click.Group):
            break
        group, words = verb, words[1:]
    if words[0] == "demo":
        return  # Its options are its own.
    with verb.make_context(words[0], words[1:], parent=parent) as context:
        assert context.params is not None
