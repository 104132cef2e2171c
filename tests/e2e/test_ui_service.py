"""The pages on a real job manager with a real job: live figures, a savepoint, a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from service_kit import Manager, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e

MARKUP = '<img src=x onerror="window.hacked=1">'
PROGRAM = f"""
import sys
from pathlib import Path

from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSource

BAD = Path(sys.argv[1])


class Endless(PythonSource):
    def splits(self):
        return ["0"]

    def latest_offset(self, split):
        return sys.maxsize

    def read(self, split, start, end):
        return range(start, end)


def check(value):
    if BAD.exists():
        raise ValueError({MARKUP!r})
    return value


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.add_source(Endless()).uid("numbers").map(check).uid("check")
numbers.key_by(lambda value: value % 7).reduce(max).uid("largest").filter(
    lambda value: False
).print().uid("nothing")
env.execute({"job " + MARKUP!r})
"""


OUR_METRICS = (
    "epoch_duration_seconds",
    "epoch_records",
    "checkpoint_files_new",
    "checkpoint_files_reused",
    "checkpoint_bytes_inline",
    "storage_requests_total",
    "storage_retries_total",
    "state_bytes",
    "spark_task_retries_total",
    "fenced_writes_total",
    "orphan_bytes",
    "leader",
)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    checkpoints = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.fixed-delay.attempts": "100000",
        # Whoever looks at the latest one has time to.
        "execution.checkpointing.num-retained": "50",
    }
    found = Manager(tmp_path / "state", **checkpoints)
    yield found
    found.kill_all()


def test_a_job_is_watched_saved_and_cancelled(
    manager: Manager, tmp_path: Path, open_tab: Callable[..., Any]
) -> None:
    job = manager.submit(PROGRAM, tmp_path / "bad")
    job.wait_for_state("RUNNING")
    job.wait_for_checkpoint()
    tab = open_tab(manager.url, f"#token={manager.token}", made_up=False)
    tab.page.get_by_role("link", name=f"job {MARKUP}").click()
    tab.page.locator("h1", has_text=f"job {MARKUP}").wait_for()

    records = tab.page.locator("tbody td[data-label='Records in']").last
    records.wait_for()
    first = records.inner_text()
    tab.until(lambda: records.inner_text() != first, "the figures stand still")

    tab.page.get_by_role("button", name="Savepoint", exact=True).click()
    tab.page.get_by_label("Directory").fill(str(tmp_path / "saved"))
    tab.page.get_by_role("button", name="Take savepoint").click()
    notice = tab.page.locator(".notice.done", has_text="Savepoint completed")
    notice.wait_for()
    (savepoint,) = (tmp_path / "saved").iterdir()
    assert (savepoint / "_metadata").is_file()
    assert f"penstock run -d -s {savepoint} <program.py>" in notice.inner_text()

    tab.go(f"{manager.url}/#/jobs/{job.job_id}/checkpoints")
    tab.page.get_by_role("region", name="Latest savepoint").get_by_text(
        str(savepoint)
    ).first.wait_for()

    (metadata,) = (tmp_path / "saved").glob("*/_metadata")
    tab.page.get_by_role("link", name="State", exact=True).click()
    snapshot = tab.page.locator("#snapshot")
    saved = snapshot.locator("option", has_text="savepoint")
    saved.wait_for(state="attached")
    snapshot.select_option(saved.get_attribute("value"))
    tab.page.get_by_role("term").filter(has_text="Savepoint").wait_for()
    tab.page.get_by_role("button", name="Open Reduce", exact=True).click()
    rows = tab.page.get_by_role("group", name="First rows of largest").locator("tbody tr")
    rows.first.wait_for()
    # One row for each remainder.
    assert sorted(rows.locator("td[data-label=Key]").all_inner_texts()) == list("0123456")
    assert f"penstock state get {metadata.parent} largest" in tab.text(".detail .command")

    (tmp_path / "bad").touch()
    tab.page.get_by_role("link", name="Exceptions").click()
    tab.page.locator(".trace").first.wait_for()
    assert f"ValueError: {MARKUP}" in tab.text(".trace >> nth=0")
    assert (
        "raise ValueError" in tab.page.locator(".frame-user", has_text="raise").first.inner_text()
    )
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("img").count() == 0

    tab.page.get_by_role("button", name="Cancel", exact=True).click()
    tab.page.get_by_role("button", name="Cancel job").click()
    tab.page.locator(".job-title .badge", has_text="Canceled").wait_for()
    assert job.state == "CANCELED"


def test_every_page_of_a_real_job_is_whole(
    manager: Manager, tmp_path: Path, open_tab: Callable[..., Any]
) -> None:
    job = manager.submit(PROGRAM, tmp_path / "never")
    job.wait_for_checkpoint()
    # A driver writes its checkpoints before the job they are of.
    vertex = wait_for(lambda: job.document()["vertices"], job.trouble)[-1]["id"]
    base = f"#/jobs/{job.job_id}"
    expected = {
        f"{base}/graph/{vertex}": "Subtasks of Reduce",
        f"{base}/checkpoints/history": "Completed",
        f"{base}/checkpoints/summary": "p99.9",
        f"{base}/checkpoints/configuration": "50 ms",
        f"{base}/checkpoints/timeline": "Longest pause",
        f"{base}/exceptions": "No failure so far",
        f"{base}/configuration": "execution.checkpointing.interval",
        f"{base}/logs": "lines",
        "#/jobmanager": "penstock.jobmanager.directory",
        "#/jobmanager/logs": job.job_id,
    }
    tab = open_tab(manager.url, f"#token={manager.token}", made_up=False)
    for address, text in expected.items():
        tab.go(f"{manager.url}/{address}")
        tab.until(lambda text=text: text in tab.text(), f"{address} does not show {text}")

    def missing() -> list[str]:
        headers = {"Authorization": f"Bearer {manager.token}"}
        with urlopen(Request(f"{manager.url}/metrics", headers=headers), timeout=120) as answer:
            told = answer.read().decode()
        return [name for name in OUR_METRICS if f"\npenstock_{name}{{" not in told]

    wait_for(lambda: not missing(), lambda: f"not told of: {missing()}")
    job.cancel()
    job.wait_for_state("CANCELED")
