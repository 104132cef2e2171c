"""`config` and `completion`; and that actions which need no Spark do not load it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from command_line import penstock
from stub_manager import ID_RUNNING, StubManager

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("fastapi", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "rich", "uvicorn")


def test_config_shows_sources(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text(
        "rest.port: 8082\nparallelism.default: 2\nfs.s3a.secret.key: hush\n"
    )
    ran = penstock("config", "-D", "rest.port=8083", "--set")
    assert ran.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in ran.lines}
    assert rows["rest.port"] == ["8083", "-D"]
    assert rows["parallelism.default"] == ["2", "conf/config.yaml:2"]
    assert "hush" not in ran.out


def test_config_of_a_section() -> None:
    ran = penstock("config", "--json", "--section", "restart-strategy.fixed-delay")
    assert {row["key"]: (row["value"], row["source"]) for row in ran.document["settings"]} == {
        "restart-strategy.fixed-delay.attempts": ("1", "default"),
        "restart-strategy.fixed-delay.delay": ("1 s", "default"),
    }
    wrong = penstock("config", "--section", "restart-stratgy")
    assert wrong.code == 2
    assert 'No key begins with "restart-stratgy".' in wrong.out


def test_config_shows_what_is_fixed_for_spark() -> None:
    key = "penstock.spark.conf.spark.speculation"
    assert penstock("config", "--section", key).lines[-1].split() == [key, "false", "penstock"]
    ran = penstock("config", "--section", key, "-D", f"{key}=true")
    assert ran.lines[-1].split() == [key, "true", "-D"]


def test_config_warns_once(tmp_path: Path) -> None:
    ran = penstock("config", "--set", "-D", "state.backnd=rocksdb")
    assert ran.err.count("WARNING") == 1
    assert "is unknown and has no effect" in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    ran = penstock("completion", shell)
    assert ran.code == 0
    assert "_PENSTOCK_COMPLETE" in ran.out


def test_actions_and_options_are_completed() -> None:
    def completed(words: str, position: int) -> list[str]:
        program = (
            "import os, sys; from penstock.cli.main import main; sys.argv = ['penstock']; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={
                "PATH": "",
                "_PENSTOCK_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(position),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("penstock sa", 1) == ["savepoint"]
    assert "--drain" in completed("penstock stop --", 2)


def test_what_needs_no_spark_does_not_load_it(manager: StubManager, tmp_path: Path) -> None:
    """Start-up is import time: what these actions load is what they need."""
    (tmp_path / "app.py").write_text("")
    program = f"""
import sys
from penstock.cli.main import run
address = ["-m", {manager.url!r}]
for command in (["-h"], ["list", *address], ["savepoint", {ID_RUNNING!r}, *address], ["stop", "-h"],
                ["config", "--set"], ["run", "-d", *address, "app.py"], ["verify", "-h"]):
    assert run(command) == 0, command
loaded = {set(HEAVY)!r} & {{name.split(".")[0] for name in sys.modules}}
print("loaded:", *sorted(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "loaded:"
