"""One virtual environment per peer under .bench/, so that no peer decides another's versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".bench"

REQUIREMENTS = {
    "pyflink": ["apache-flink==2.3.0"],
    # What PySpark's own documentation asks for beside it to use transformWithState.
    "pyspark": ["pyspark==4.3.0", "pandas==2.3.3", "pyarrow==26.0.1", "protobuf>=6.33"],
}


def find_uv() -> str:
    """The uv of the development environment, or any other."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv was not found: run `make bench`, which installs it into .venv.")
    return found


def python_of(name: str) -> Path:
    """The interpreter of a peer; installs its environment first when it is missing."""
    if name not in REQUIREMENTS:
        return Path(sys.executable)
    folder = WORK / name
    installed = folder / "installed.txt"
    wanted = "\n".join(REQUIREMENTS[name])
    if not installed.exists() or installed.read_text() != wanted:
        print(f"Installing {wanted.splitlines()[0]} into .bench/{name} ...", flush=True)
        uv = find_uv()
        subprocess.run(
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True
        )
        python = str(folder / "bin" / "python")
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", python, *REQUIREMENTS[name]], check=True
        )
        installed.write_text(wanted)
    return folder / "bin" / "python"


def ported(program: Path) -> Path:
    """The program for Penstock: the same file with the imports renamed, and nothing else."""
    target = WORK / "run" / f"penstock_{program.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = program.read_text()
    target.write_text(re.sub(r"^from pyflink\b", "from penstock", text, flags=re.MULTILINE))
    return target


def environment_of(name: str) -> dict[str, str]:
    """Variables for a peer's processes: its `python` comes first, and nothing of ours leaks in."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "SPARK_", "FLINK_", "VIRTUAL_ENV"))
    }
    kept["PATH"] = f"{python_of(name).parent}{os.pathsep}{kept['PATH']}"
    return kept
