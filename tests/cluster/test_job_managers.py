"""Job managers on hosts: jobs are rescaled while they run, and survive a leader that is cut off."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster_kit import PROGRAM, Bucket, compare
from hosts import Hosts, SparkCluster, spark_on_hosts, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts import Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
RECORDS = 100_000
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
TOKEN = "one-for-all-managers"
LEASE_S = 12


class Manager:
    """`penstock jobmanager` on a host; it shares the object store with others."""

    def __init__(self, hosts: Hosts, host: Host, storage: str = "s3://bucket/ha") -> None:
        self.host = host
        self._hosts = hosts
        token = host.root / "tmp" / "token"
        token.parent.mkdir(mode=0o1777, parents=True, exist_ok=True)
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        settings = {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": storage,
            "penstock.high-availability.lease-timeout": f"{LEASE_S} s",
            "penstock.jobmanager.directory": "/tmp/jobmanager",
            "penstock.rest.token-file": "/tmp/token",
            "penstock.rest.token-in-clear": "true",
            "penstock.rest.savepoint-roots": "s3://bucket",
            "rest.bind-address": "0.0.0.0",
            "rest.address": host.address,
            "rest.port": "8081",
            "s3.endpoint": hosts.endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
        }
        lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
        (host.root / "tmp" / "config.yaml").write_text("\n".join(lines))
        self.process = host.start(
            [PENSTOCK, "jobmanager"], hosts.log(f"manager-{host.name}"), {"FLINK_CONF_DIR": "/tmp"}
        )

    def ask(self, path: str) -> Any:
        request = urllib.request.Request(
            f"http://{self.host.address}:8081{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.load(reply)

    def role(self) -> str:
        try:
            return str(self.ask("/health/ready")["role"])
        except OSError:
            return ""

    def state(self, job: str) -> str:
        """Returns the state of a job; empty while the manager does not answer."""
        with contextlib.suppress(OSError, KeyError):
            return str(self.ask(f"/v1/jobs/{job}")["state"])
        return ""

    def run(self, *arguments: str) -> str:
        """Runs a command on the host; returns what it prints."""
        log = self._hosts.log(f"command-{arguments[0]}-{len(self.host.processes)}")
        command = [PENSTOCK, *arguments]
        process = self.host.start(command, log, {"FLINK_CONF_DIR": "/tmp"})
        wait_until(lambda: process.poll() is not None, self._hosts)
        assert process.returncode == 0, self._hosts.logs()
        return log.read_text()

    def executors(self, job: str) -> dict[str, int]:
        """Returns how many subtasks of a job each host has, as the page shows it.

        Nothing while the manager does not lead, as on a machine on which it comes too late.
        """
        try:
            table = self.ask(f"/v1/jobs/{job}")["engine"]["table"]
        except OSError:
            return {}
        assert all(bool(each["subtasks"]) == bool(each["memory-bytes"]) for each in table)
        return {each["host"]: each["subtasks"] for each in table}

    def submit(self, spark: SparkCluster, *options: str, **settings: str) -> str:
        """Starts the job; returns its id."""
        # The input has to last while commands run.
        pace = {"execution.checkpointing.interval": "500 ms"}
        more = json.dumps(pace | settings)
        program = [str(PROGRAM), str(RECORDS), spark.master, "own", self._hosts.endpoint, more]
        return self.run("run", "-d", "-q", *options, *program).split()[-1]


@pytest.fixture
def roomy_cluster(_can_have_hosts: None, tmp_path: Path) -> Iterator[tuple[Hosts, SparkCluster]]:
    """Workers of two cores each: a driver that is cut off keeps its executors for a while."""
    with spark_on_hosts(tmp_path, 2, cores=2) as made:
        yield made


def wait_for_checkpoints(bucket: Bucket, hosts: Hosts, number: int) -> None:
    known = bucket.newest_checkpoint()
    wait_until(lambda: bucket.newest_checkpoint() >= known + number, hosts)


def finish(bucket: Bucket, hosts: Hosts, manager: Manager, job: str) -> None:
    bucket.delete("paced")
    wait_until(lambda: manager.state(job) in {"FINISHED", "FAILED", "CANCELED"}, hosts)
    assert manager.state(job) == "FINISHED", hosts.logs()
    compare(bucket, RECORDS)


def test_a_job_is_rescaled_while_it_runs(cluster: tuple[Hosts, SparkCluster]) -> None:
    hosts, spark = cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    manager = Manager(hosts, hosts.hosts[0])
    wait_until(lambda: manager.role() == "leader", hosts)
    job = manager.submit(spark)
    wait_for_checkpoints(bucket, hosts, 3)
    for parallelism in (6, 2):
        manager.run("rescale", "-p", str(parallelism), job)
        wait_for_checkpoints(bucket, hosts, 3)
        vertices = manager.ask(f"/v1/jobs/{job}")["vertices"]
        assert {vertex["parallelism"] for vertex in vertices} == {parallelism}
    finish(bucket, hosts, manager, job)


def test_a_job_is_moved_to_another_cluster_and_upgraded(
    _can_have_hosts: None, tmp_path: Path
) -> None:
    """As an operator does, with what docs/deploying.md says."""
    hosts = Hosts(tmp_path, 5)
    try:
        bucket = Bucket(hosts)
        bucket.put("paced")
        spark = SparkCluster(hosts, on=hosts.hosts[:3])
        manager = Manager(hosts, hosts.hosts[0])
        wait_until(lambda: manager.role() == "leader", hosts)
        job = manager.submit(spark)
        wait_for_checkpoints(bucket, hosts, 2)
        left, lost = hosts.hosts[1:3]
        wait_until(lambda: len(manager.executors(job)) == 2, hosts)
        lost.kill()
        # Two levels of four subtasks.
        wait_until(lambda: manager.executors(job) == {left.address: 8}, hosts)
        spark.start_worker(lost)
        wait_until(lambda: len(manager.executors(job)) == 2, hosts)
        # With the parallelism that it has, the job uses the host that came back.
        manager.run("rescale", "-p", "4", job)
        wait_until(lambda: manager.executors(job) == {left.address: 4, lost.address: 4}, hosts)
        assert f"{job} : on hosts (RUNNING)" in manager.run("list")
        said = manager.run("stop", "-p", "s3://bucket/savepoints", job)
        savepoint = said.partition("Path: ")[2].split()[0]
        assert "(FINISHED)" in manager.run("list", "-a")
        for host in hosts.hosts[:3]:
            host.kill()

        spark = SparkCluster(hosts, on=hosts.hosts[3:])
        manager = Manager(hosts, hosts.hosts[3], "s3://bucket/ha-of-the-other")
        wait_until(lambda: manager.role() == "leader", hosts)
        job = manager.submit(spark, "-s", savepoint, upgraded="yes", **{"parallelism.default": "2"})
        wait_for_checkpoints(bucket, hosts, 2)
        finish(bucket, hosts, manager, job)
    finally:
        hosts.close()


def test_a_leader_that_is_cut_off_and_cannot_kill_its_driver_commits_nothing(
    roomy_cluster: tuple[Hosts, SparkCluster],
) -> None:
    hosts, spark = roomy_cluster
    bucket = Bucket(hosts)
    bucket.put("paced")
    leader = Manager(hosts, hosts.hosts[1])
    wait_until(lambda: leader.role() == "leader", hosts)
    standby = Manager(hosts, hosts.hosts[2])
    wait_until(lambda: standby.role() == "standby", hosts)
    job = leader.submit(
        spark,
        **{
            "penstock.spark.conf.spark.cores.max": "2",
            "penstock.spark.conf.spark.network.timeout": "20s",
            "penstock.spark.conf.spark.network.timeoutInterval": "5s",
            "penstock.spark.conf.spark.executor.heartbeatInterval": "3s",
        },
    )
    wait_for_checkpoints(bucket, hosts, 3)
    # Else it would kill its driver by its own clock.
    os.kill(leader.process.pid, signal.SIGSTOP)
    leader.host.cut()
    [driver] = drivers(leader.host)
    wait_until(lambda: standby.role() == "leader", hosts)
    wait_for_checkpoints(bucket, hosts, 3)
    # Now there are two drivers of the job, and both reach the object store.
    assert driver in drivers(leader.host)
    leader.host.mend()
    wait_until(lambda: driver not in drivers(leader.host), hosts)
    wait_for_checkpoints(bucket, hosts, 3)
    os.kill(leader.process.pid, signal.SIGCONT)
    wait_until(lambda: leader.role() == "standby", hosts)
    finish(bucket, hosts, standby, job)


def drivers(host: Host) -> list[int]:
    """Returns the processes of drivers on a host."""
    return host.pids("penstock.job.driver_process")
