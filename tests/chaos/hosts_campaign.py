"""Kills, cuts and pauses on a cluster of hosts: `make chaos MASTER=hosts KILLS=200 SEED=1`.

The hosts are network namespaces (`tests/cluster/hosts.py`) that share an object store. A job with
state numbers the records of each key; after its faults an oracle without Penstock looks for each
record in the output. Everything follows from a seed, but for the moment at which a fault hits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

from cluster_kit import Bucket, compare, start
from hosts import PATIENCE_S, Host, Hosts, SparkCluster

if TYPE_CHECKING:
    import random
    import subprocess

    from kill_campaign import Tally

WORKERS: Final = 3
RECORDS: Final = 100_000
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
PYTHON: Final = "pyspark.daemon"
TIMEOUT_S: Final = 8
LOST_SOON: Final = f"-Dspark.worker.timeout={TIMEOUT_S} -Dspark.network.timeout={TIMEOUT_S}s"
"""Settings of Spark's own processes."""
SHORT_S: Final = (1.0, 4.0)
LONG_S: Final = (TIMEOUT_S + 4.0, TIMEOUT_S + 8.0)
FAULTS: Final = {
    "executor killed": 4,
    "Python worker killed": 4,
    "Python daemon killed": 3,
    "host killed": 2,
    "driver killed": 2,
    "executor paused, shortly": 1,
    "executor paused, beyond time-outs": 1,
    "host cut off, shortly": 2,
    "host cut off, beyond time-outs": 1,
    "host of the driver cut off, shortly": 1,
}
"""How often each is drawn."""


class HostsRun:
    """One job on hosts, with several faults.

    Args:
        hosts: The first has Spark's master, the others have a worker each.
        spark: The cluster on them.
        rng: Chooses settings and faults.
        tally: Is added to.
    """

    def __init__(self, hosts: Hosts, spark: SparkCluster, rng: random.Random, tally: Tally) -> None:
        self._hosts = hosts
        self._spark = spark
        self._rng = rng
        self._tally = tally
        self._bucket = Bucket(hosts)
        self._bucket.clear()
        self._bucket.put("paced")
        self.settings = {
            "parallelism__default": rng.choice(["2", "3", "4", "6"]),
            "state__backend__type": rng.choice(["hashmap", "rocksdb"]),
            "execution__checkpointing__incremental": rng.choice(["true", "false"]),
            "execution__checkpointing__data-inline-threshold": rng.choice(["0", "1 kb"]),
            "execution__checkpointing__num-retained": rng.choice(["1", "2"]),
            "execution__checkpointing__tolerable-failed-checkpoints": "20",
            "restart-strategy__type": "fixed-delay",
            "restart-strategy__fixed-delay__attempts": "1000",
            "restart-strategy__fixed-delay__delay": "100 ms",
            "penstock__spark__conf__spark__network__timeout": f"{TIMEOUT_S}s",
            "penstock__spark__conf__spark__network__timeoutInterval": "2s",
            "penstock__spark__conf__spark__executor__heartbeatInterval": "1s",
        }
        tally.runs += 1
        self._start(0)

    def suffer(self, fault: str) -> bool:
        """Waits for new checkpoints and lets the fault happen; False if the job ended before."""
        if not self._progressed(self._rng.randint(1, 3)):
            self._tally.missed += 1
            return False
        time.sleep(self._rng.random() * 0.3)
        workers = [host for host in self._hosts.hosts[1:] if host is not self._driver_host]
        host = self._rng.choice(workers)
        match fault:
            case "executor killed":
                struck = host.kill(EXECUTOR) > 0
            case "Python worker killed" | "Python daemon killed":
                struck = kill_python(host, daemon="daemon" in fault, rng=self._rng)
            case "host killed":
                struck = host.kill() > 0
                self._spark.start_worker(host)
            case "driver killed":
                struck = self._kill_driver()
            case "executor paused, shortly" | "executor paused, beyond time-outs":
                struck = pause(host, self._rng.uniform(*(SHORT_S if "short" in fault else LONG_S)))
            case "host of the driver cut off, shortly":
                struck = cut(self._driver_host, self._rng.uniform(*SHORT_S))
            case _:
                struck = cut(host, self._rng.uniform(*(SHORT_S if "short" in fault else LONG_S)))
        if struck:
            self._tally.struck[fault] += 1
        else:
            self._tally.missed += 1
        return True

    def finish(self) -> None:
        """Lets the job read to its end; nothing may be lost or doubled."""
        if self._job.poll() is None:
            self._progressed(2)
        self._bucket.delete("paced")
        self._wait(lambda: False)
        assert self._job.returncode == 0, self._hosts.logs()
        compare(self._bucket, RECORDS)

    def close(self) -> None:
        """Ends the job's processes, whatever state they are in."""
        self._driver_host.kill("cluster_job.py")
        self._driver_host.kill("SparkSubmit")

    def _start(self, on: int) -> None:
        self._tally.starts += 1
        self._driver_host = self._hosts.hosts[on]
        # Processes of all jobs are numbered, since local directories have that number.
        process = str(self._tally.starts)
        self._job: subprocess.Popen[bytes] = start(
            self._hosts, self._spark, RECORDS, on, process=process, **self.settings
        )

    def _kill_driver(self) -> bool:
        struck = self._driver_host.kill("cluster_job.py") > 0
        if self._rng.random() < 0.5:
            # Else Spark's JVM sees that it is alone.
            self._driver_host.kill("SparkSubmit")
        self._job.wait()
        self._start(self._rng.randrange(len(self._hosts.hosts)))
        return struck

    def _progressed(self, number: int) -> bool:
        known = self._bucket.newest_checkpoint()
        self._wait(lambda: self._bucket.newest_checkpoint() >= known + number)
        return self._job.poll() is None

    def _wait(self, condition: Any) -> None:
        """Waits for a condition or the end of the job; a job without checkpoints hangs."""
        newest, deadline = -1, 0.0
        while self._job.poll() is None and not condition():
            found = self._bucket.newest_checkpoint()
            if found != newest:
                newest, deadline = found, time.monotonic() + PATIENCE_S
            assert time.monotonic() < deadline, f"the job hangs: {self._hosts.logs()}"
            time.sleep(0.2)


def kill_python(host: Host, *, daemon: bool, rng: random.Random) -> bool:
    """Kills the process that Python workers are forked from, or one of them."""
    parents = {}
    for pid in host.pids(PYTHON):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(status[1])
    found = [pid for pid, parent in parents.items() if (parent in parents) is not daemon]
    if not found:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(found), signal.SIGKILL)
        return True
    return False


def pause(host: Host, seconds: float) -> bool:
    """Stops an executor with its Python processes for a time."""
    found = host.pids(EXECUTOR) + host.pids(PYTHON)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)
    return bool(found)


def cut(host: Host, seconds: float) -> bool:
    """Takes the cable of a host out for a time."""
    host.cut()
    time.sleep(seconds)
    host.mend()
    return True


def random_fault(rng: random.Random) -> str:
    """Draws a fault."""
    return rng.choices(list(FAULTS), list(FAULTS.values()))[0]


def run_faults(
    hosts: Hosts, spark: SparkCluster, rng: random.Random, tally: Tally, most: int
) -> None:
    """One job with up to `most` random faults, and its check."""
    story: list[str] = []
    run = HostsRun(hosts, spark, rng, tally)
    try:
        for _ in range(most):
            story.append(random_fault(rng))
            if not run.suffer(story[-1]):
                break
        run.finish()
    except AssertionError as error:
        raise AssertionError(f"after {story} with {run.settings}: {error}") from error
    finally:
        run.close()
