"""The state tab: what a snapshot holds, the first rows of a state, and what is said without any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e

VALUES = [
    ('"plain"', "plain"),
    ('""', '""'),
    ("[1, null, true]", "[1, null, true]"),
    ('({a: "x", b: 1.5})', '{"a": "x", "b": 1.5}'),
    ('({$tuple: ["a", {$bytes: "00ff"}]})', '("a", 0x00ff)'),
    ('({$map: [[1, "a"]]})', '{1: "a"}'),
    ('({$row: [1, "a"]})', 'Row(1, "a")'),
    ('({$repr: "Decimal(1)"})', "Decimal(1)"),
    ("({$pickle: 1536})", "pickled, 1.50 KiB"),
    ('({$cut: "abc", length: 9})', "abc…"),
    ('({constructor: "x"})', '{"constructor": "x"}'),
]


def test_values_as_people_read_them(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    tab = open_tab(serve("empty").url)
    for value, expected in VALUES:
        found = tab.page.evaluate(
            f"import('/modules/state_values.js').then((m) => m.valueText({value}))"
        )
        assert found == expected, value


def opener(tab: Any, name: str) -> Any:
    return tab.page.get_by_role("button", name=f"Open {name}", exact=True)


def test_states_of_the_latest_snapshot_and_of_a_chosen_one(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    base = f"jobs/{server.look.jobs[0].jid}"
    tab = open_tab(server.url, f"#/{base}/state")
    states = tab.page.get_by_role("group", name="States of the snapshot")
    states.wait_for()
    # One state of each source, four of the join, one of the count; see the made-up documents.
    assert states.locator("tbody tr").count() == 8
    assert "124" in tab.text(".figures")
    opener(tab, "prices of join prices").press("Enter")
    rows = tab.page.get_by_role("group", name="First rows of prices")
    rows.wait_for()
    first = rows.locator("tbody tr").first.locator("td").all_inner_texts()
    assert first == [
        "channel-1", "2026-11-21", """{"amount": Decimal('12.50'), "currency": "EUR"}"""
    ]  # fmt: skip
    assert "/chk-124 uid-3 prices --limit 0" in tab.text(".detail .command")

    tab.page.locator("#snapshot").select_option("119")
    tab.until(lambda: "Savepoint\n119" in tab.text(".figures"), "the chosen one is not shown")
    opener(tab, "join prices").click()
    notes = tab.page.get_by_text("Pickled objects are not loaded here")
    notes.wait_for()
    assert "pickled, 412 B" in tab.text(".detail >> nth=1")


def test_a_newer_snapshot_is_told_of_and_not_shown_by_itself(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    path = f"jobs/{server.look.jobs[0].jid}/checkpoints"
    tab = open_tab(server.url, f"#/{path.replace('checkpoints', 'state')}")
    tab.until(lambda: "124" in tab.text(".figures"), "no snapshot")
    history = server.look.documents[path]["history"]
    history[0] |= {"status": "COMPLETED", "external_path": "s3://c/chk-125", "discarded": False}
    history[1]["discarded"] = True
    server.tell("checkpoints")
    tab.until(lambda: "checkpoint 125" in tab.text(".state-choice .note"), "not told of")
    assert "124" in tab.text(".figures")
    # 124 has been deleted meanwhile, so the rows are of its successor, and the page says so.
    opener(tab, "count of join prices").click()
    tab.page.get_by_text("From snapshot 125: 124 has been deleted since.").wait_for()
    tab.page.get_by_role("button", name="Read again").click()
    tab.until(lambda: "125" in tab.text(".figures"), "not read again")


@pytest.mark.parametrize("size", ["wide", "phone"])
def test_what_cannot_be_read_is_said(
    size: str, serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    base = f"jobs/{server.look.jobs[0].jid}"
    # The browser itself reports the refusals.
    tab = open_tab(server.url, f"#/{base}/state", size=size, may_complain=True)
    opener(tab, "count of count per channel and minute").click()
    tab.until(lambda: "102 MiB would have to be read" in tab.text(), "too much is not said")
    lists = server.look.documents[f"{base}/state"]
    server.look.documents[f"{base}/state"] = (409, {"errors": ["<b>_metadata</b> is damaged."]})
    tab.page.get_by_role("button", name="Read again").click()
    tab.until(lambda: "<b>_metadata</b> is damaged." in tab.text(), "no reason")
    server.look.documents[f"{base}/state"] = lists
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.get_by_role("group", name="States of the snapshot").wait_for()


def test_without_a_snapshot_there_is_advice(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[1].jid}/state")
    tab.until(lambda: "execution.checkpointing.interval" in tab.text(), "no advice")
    path = f"jobs/{server.look.jobs[0].jid}/checkpoints"
    document = server.look.documents[path]
    for line in document["history"]:
        line["discarded"] = True
    document["latest"] = {}
    tab.go(f"{server.url}/#/{path.replace('checkpoints', 'state')}")
    tab.until(lambda: "No snapshot of this job is there" in tab.text(), "no advice")
    for line in document["history"]:
        line |= {"discarded": False, "external_path": "memory://job/chk"}
    server.tell("checkpoints")
    tab.until(lambda: "in the memory of its process" in tab.text(), "no advice")
