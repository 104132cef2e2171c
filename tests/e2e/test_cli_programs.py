"""Programs that the command line runs itself: their jobs, plans, settings and failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
IN_PROCESS = ("-D", "penstock.spark.master=in-process")
PROGRAM = """
import sys
from penstock.datastream import StreamExecutionEnvironment
from numbers_of import numbers

print("arguments", *sys.argv[1:])
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
stream = env.from_collection(numbers(int(sys.argv[1]))).map(lambda x: 12 // x).name("divide")
stream.print()
env.execute("dividing")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "numbers_of.py").write_text("def numbers(n): return list(range(n, 4))\n")
    return tmp_path


def penstock(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [PENSTOCK, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_job_of_this_process(folder: Path) -> None:
    code, out, err = penstock(
        folder, "run", "-t", "local", *IN_PROCESS, "-pyfs", "lib", "-py", "app.py", "1", "--x"
    )
    assert code == 0, err
    first, submitted, *printed, finished, has_finished, runtime = out.splitlines()
    job_id = submitted.removeprefix("Job has been submitted with JobID ")
    assert first == "arguments 1 --x"
    assert len(job_id) == 32
    # 12 // 1, 12 // 2 and 12 // 3, each behind the subtask that printed it.
    assert sorted(line.rpartition(" ")[2] for line in printed) == ["12", "4", "6"]
    assert finished == "Program execution finished"
    assert has_finished == f"Job with JobID {job_id} has finished."
    assert runtime.startswith("Job Runtime: ")


@pytest.mark.parametrize("master", ["in-process", "local[2]"])
def test_files_and_archives_of_the_command_line(folder: Path, master: str) -> None:
    (folder / "shipped.py").write_text("TEN = 10\n")
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("factor.txt", "7")
    (folder / "times.py").write_text(
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "def times(value):\n"
        "    from shipped import TEN\n"
        "    return value * TEN * int(open('data/factor.txt').read())\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(times).print()\n"
        "env.execute()\n"
    )
    brought = ("-pyfs", "shipped.py", "-pyarch", "data.zip#data")
    code, out, err = penstock(
        *(folder, "run", "-t", "local", "-D", f"penstock.spark.master={master}"),
        *(*brought, "-py", "times.py"),
    )
    assert code == 0, err
    assert [line for line in out.splitlines() if line in ("70", "140")] == ["70", "140"]


def test_a_terminated_run_ends_its_job(folder: Path) -> None:
    """Even in the background, where a shell has Ctrl-C ignored."""
    (folder / "endless.py").write_text(
        "import time\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "numbers = env.from_collection(list(range(10_000)))\n"
        "numbers.map(lambda x: time.sleep(0.01)).print()\n"
        "env.execute('endless')\n"
    )
    command = [PENSTOCK, "run", "-t", "local", *IN_PROCESS, "-Dpenstock.epoch.max-records=10"]
    process = subprocess.Popen(
        ["bash", "-c", 'trap "" INT; exec "$0" "$@"', *command, "endless.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline().startswith("Job has been submitted with JobID ")
        process.terminate()
        process.stdout.read()  # Ends when the program's process has ended, too.
    assert process.wait(240) == 130


def test_a_run_that_is_terminated_twice_cleans_up_undisturbed(folder: Path) -> None:
    """As by `timeout` or systemd: its process is asked directly, and once more by the command."""
    os.mkfifo(folder / "asked")
    (folder / "endless.py").write_text(
        "import atexit, os, time\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "def clean_up():\n"
        "    print('cleaning up', os.getpid(), flush=True)\n"
        "    open('asked').readline()\n"
        "    print('cleaned up', flush=True)\n"
        "atexit.register(clean_up)\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "numbers = env.from_collection(list(range(10_000)))\n"
        "numbers.map(lambda x: time.sleep(0.01)).print()\n"
        "env.execute('endless')\n"
    )
    command = [PENSTOCK, "run", "-t", "local", *IN_PROCESS, "-Dpenstock.epoch.max-records=10"]
    process = subprocess.Popen(
        [*command, "endless.py"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    # For both directions, so that this does not wait for a reader who may be gone.
    with process.stdout as lines, (folder / "asked").open("r+b", buffering=0) as asked:
        assert lines.readline().startswith("Job has been submitted with JobID ")
        process.terminate()
        said = next(line for line in lines if line.startswith("cleaning up"))
        os.kill(int(said.split()[2]), signal.SIGTERM)
        asked.write(b"go on\n")
        assert lines.read() == "cleaned up\n"
    assert process.wait(240) == 130


def test_json_of_a_job_of_this_process(folder: Path) -> None:
    code, out, err = penstock(
        folder, "run", "--json", "-t", "local", *IN_PROCESS, "-pyfs", "lib", "app.py", "1"
    )
    assert code == 0, err
    [job] = json.loads(out)["jobs"]
    assert job["state"] == "FINISHED"
    assert "arguments 1" in err, "what the program prints is not the document"


def test_a_failure_begins_with_the_users_frame(folder: Path) -> None:
    code, out, err = penstock(
        folder, "run", "-t", "local", *IN_PROCESS, "-pyfs", "lib", "app.py", "0"
    )
    assert code == 1
    assert "Program execution finished" not in out
    assert err.index("app.py") < err.index("ZeroDivisionError: integer division or modulo by zero")
    assert "launch/local_job.py" not in err
    code, _, err = penstock(folder, "run", "-t", "local", *IN_PROCESS, "app.py", "1")
    assert code == 1
    assert "No module named 'numbers_of'" in err
    assert "runpy" not in err


def test_the_plan_without_the_job(folder: Path) -> None:
    code, out, err = penstock(folder, "info", "-p", "3", "-pyfs", "lib", "app.py", "0")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "----------------------- Execution Plan -----------------------"
    assert lines[-1] == "-" * 62
    nodes = {node["type"]: node for node in json.loads("\n".join(lines[1:-1]))["nodes"]}
    # The program's own set_parallelism outranks -p.
    assert nodes["divide"]["parallelism"] == 2
    assert [edge["id"] for edge in nodes["divide"]["predecessors"]] == [1]
    code, out, _ = penstock(folder, "info", "--json", "-pyfs", "lib", "app.py", "0")
    assert json.loads(out)["job_name"] == "dividing"


def test_settings_of_a_program(folder: Path) -> None:
    code, out, err = penstock(
        folder, "config", "--set", "-Dparallelism.default=5", "-pyfs", "lib", "app.py", "0"
    )
    assert code == 0, err
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["parallelism.default"] == ["2", "code", "app.py:8"]
    assert "the program sets '2' (app.py:8), -D says '5'" in err


def test_a_program_without_a_job(folder: Path) -> None:
    (folder / "nothing.py").write_text("print('hello')\n")
    code, _, err = penstock(folder, "info", "nothing.py")
    assert code == 1
    assert "the program ended without a job; it must call env.execute()" in err
