"""The operations guide works as written: each command is run, and prints what the page shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "operations.md"
TIMEOUT_SECONDS = 400
MARK = "-- end of command"


@dataclass
class Command:
    """A command of the guide.

    Attributes:
        text: What is typed.
        shown: The lines that the page shows; `…` stands for anything.
    """

    text: str
    shown: list[str] = field(default_factory=list)


@dataclass
class Guide:
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)


def read_guide(text: str) -> Guide:
    guide = Guide()
    for language, block in re.findall(r"^```\{code-block\} (\w+)\n(.*?)^```$", text, re.S | re.M):
        if language == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    guide.commands.append(Command(line[2:]))
                else:
                    guide.commands[-1].shown.append(line)
        else:
            caption, _, content = block.partition("\n\n")
            guide.files[caption.removeprefix(":caption: ")] = content
    return guide


def fits(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are as shown; `…` is any text, and alone on a line any number of lines."""
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a … c"], ["a b c"], True),
        (["a … c"], ["a b d"], False),
        (["a"], [], False),
        ([], ["a"], False),
        (["…", "z"], ["x", "y", "z"], True),
        (["…"], [], True),
        (["(x)."], ["(x)!"], False),
    ],
)
def test_what_fits(shown: list[str], printed: list[str], expected: bool) -> None:
    assert fits(shown, printed) is expected


@pytest.mark.e2e
@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
def test_the_guide_works(tmp_path: Path) -> None:
    guide = read_guide(GUIDE.read_text())
    assert len(guide.commands) > 20
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    for name, content in guide.files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content.replace("8081", port))
    # `set -m`, since the page uses job control: a manager in the background, then `kill %1`.
    script = ["set -m", "trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT"]
    for command in guide.commands:
        # Errors behind output: which of two streams is read first is nobody's promise.
        script += ["{", command.text, "} 2> errors", "cat errors", f"echo '{MARK}'"]
    (tmp_path / "guide.sh").write_text("\n".join(script) + "\n")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    environment.pop("PENSTOCK_CONF_DIR", None)
    done = subprocess.run(
        ["bash", "guide.sh"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    outputs = done.stdout.split(f"{MARK}\n")
    assert len(outputs) == len(guide.commands) + 1, done.stdout
    for command, output in zip(guide.commands, outputs, strict=False):
        shown = [line.replace("8081", port) for line in command.shown]
        # What the shell itself says about its jobs is no output of a command.
        printed = [
            line
            for line in output.splitlines()
            if not re.match(r"guide\.sh: line \d+: +\d+ (Killed|Terminated)", line)
        ]
        assert fits(shown, printed), f"$ {command.text}\n{output}\nin\n{done.stdout}"
