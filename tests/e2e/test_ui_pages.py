"""What the pages show and how they behave, on made-up documents whose figures are known by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["ui_browser"]
pytestmark = pytest.mark.e2e

# Module, expression in it, and what it is by hand.
REASONED = [
    ("format", "m.bytes(0)", "0 B"),
    ("format", "m.bytes(1536)", "1.50 KiB"),
    ("format", "m.bytes(1024 ** 2 * 410)", "410 MiB"),
    ("format", "m.bytes(1023.9 * 1024)", "1.00 MiB"),
    ("format", "m.bytes(-1)", "\N{EN DASH}"),
    ("format", "m.count(1234567)", "1,234,567"),
    ("format", "m.compact(999)", "999"),
    ("format", "m.compact(999.7)", "1.00k"),
    ("format", "m.compact(48234)", "48.2k"),
    ("format", "m.compact(1.5e9)", "1.50G"),
    ("format", "m.duration(412)", "412 ms"),
    ("format", "m.duration(1239)", "1.23 s"),
    ("format", "m.duration(75_000)", "1 min 15 s"),
    ("format", "m.duration(3_600_000 * 26)", "1 d 02 h"),
    ("format", "m.duration(-1)", "\N{EN DASH}"),
    ("format", "m.period(60_000)", "1 min"),
    ("format", "m.period(5_000)", "5 s"),
    ("format", "m.elapsed(9_999)", "9 s"),
    ("format", "m.utcTime(1795298897001)", "2026-11-21 22:08:17.001 UTC"),
    ("format", "m.localTime(1795298897001, 1795298899000)", "23:08:17"),
    ("format", "m.localTime(1795298897001, 1795398899000)", "2026-11-21 23:08:17"),
    ("format", "m.shellWord('/a/b-1.c')", "/a/b-1.c"),
    ("format", "m.shellWord(`/it's here`)", "'/it'\\''s here'"),
    ("format", "m.median([4, 1, 3, 2])", 2.5),
    ("vertices", "m.skew([1, 1, 4])", 4),
    ("vertices", "m.skew([7])", None),
    ("vertices", "m.skew([0, 0, 9])", float("inf")),
    ("timeline_model", "m.percentile([1, 2, 3, 4], 50)", 2.5),
    # The largest of three is the p95; one and a half times the median 20 is 30.
    ("timeline_model", "m.stragglerLimit([10, 20, 25])", 30),
    ("timeline_model", "m.stragglerLimit([10, 20, 90])", 90),
    ("timeline_model", "m.stragglerLimit([10, 90])", None),
    ("timeline_model", "m.scaleStep(600_000, 9)", 120_000),
    ("restore", "m.restoreCommand('/s p')", "penstock run -d -s '/s p' <program.py>"),
    ("router", "m.link('jobs', 'a/b', 'graph', null)", "#/jobs/a%2Fb/graph"),
    ("router", "m.parse('#/jobs/x/checkpoints/history/7').item", "7"),
    ("router", "m.parse('#/nowhere/at/all').page", "overview"),
]


def test_figures_as_people_read_them(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    tab = open_tab(serve("empty").url)
    for module, expression, expected in REASONED:
        found = tab.page.evaluate(f"import('/modules/{module}.js').then((m) => {expression})")
        assert found == expected, expression


TRACE = """\
Traceback (most recent call last):
  File "/var/penstock/jobs/0a/program-1/job.py", line 3, in check
    if bad: raise KeyError("GBX")
  File "/srv/src/penstock/runtime/subtask.py", line 9, in run
    drive(batch)
  File "/usr/lib/python3/site-packages/penstock/core/x.py", line 1, in x
KeyError: 'GBX'
in operator 'prices'
  key: 5"""


def test_frames_of_the_program_stand_out(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    tab = open_tab(serve("empty").url)
    ask = "([name, entry]) => import('/modules/tab_exceptions.js').then((m) => m[name](entry))"
    entry = {"stacktrace": TRACE, "exceptionName": "builtins.KeyError"}
    assert tab.page.evaluate(ask, ["headline", entry]) == "KeyError: 'GBX'"
    other = {"stacktrace": "Traceback\nCaused by something", "exceptionName": "E"}
    assert tab.page.evaluate(ask, ["headline", other]) == "Caused by something"
    kinds = [line["kind"] for line in tab.page.evaluate(ask, ["traceLines", TRACE])]
    words, user, ours = "frame-words", "frame-user", "frame-ours"
    assert kinds == [words, user, user, ours, ours, ours, words, words, words]


def test_idle_time_between_checkpoints(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    # 0-10 busy, 10-30 idle, 30-60 busy (two overlap), so 40 of 60 ms were busy.
    spans = "[{start: 0, end: 10}, {start: 30, end: 50}, {start: 40, end: 60}]"
    tab = open_tab(serve("empty").url)
    found = tab.page.evaluate(f"import('/modules/timeline_model.js').then((m) => m.gaps({spans}))")
    assert found["gaps"] == [{"start": 10, "end": 30}]
    assert found["busyShare"] == pytest.approx(40 / 60)


def test_graph_goes_from_sources_to_sinks_without_overlap(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("huge")
    plan = server.look.documents[f"jobs/{server.look.jobs[0].jid}/plan"]["plan"]["nodes"]
    size = {"width": 200, "height": 100, "along": 80, "across": 20, "lane": 10}
    tab = open_tab(server.url)
    spread = tab.page.evaluate(
        "([nodes, size]) => import('/modules/graph_layout.js').then((m) => m.layout(nodes, size))",
        [plan, size],
    )
    place = {box["id"]: (box["x"], box["y"]) for box in spread["boxes"]}
    assert len(place) == len(plan) == 200
    for node in plan:
        for source in node["inputs"]:
            assert place[source["id"]][0] + size["width"] < place[node["id"]][0]
    boxes = sorted(place.values())
    for (x, y), (next_x, next_y) in pairwise(boxes):
        assert next_x - x >= size["width"] or next_y - y >= size["height"]


def test_a_stage_opens_by_key_and_shows_its_skew(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}")
    stage = tab.page.get_by_role("button", name="count per channel and minute")
    stage.focus()
    tab.page.keyboard.press("Enter")
    subtasks = tab.page.get_by_role("region", name="Subtasks of count per channel and minute")
    subtasks.locator("tbody tr").nth(3).wait_for()
    assert stage.get_attribute("aria-pressed") == "true"
    rows = server.look.documents[
        f"jobs/{server.look.jobs[0].jid}/vertices/{server.look.jobs[0].vertex(4)}"
    ]["subtasks"]
    counts = sorted(row["metrics"]["read-records"] for row in rows)
    skew = counts[3] / ((counts[1] + counts[2]) / 2)
    tab.until(lambda: f"records in {skew:.2f}\N{MULTIPLICATION SIGN}" in tab.text(), "no skew")
    tab.page.keyboard.press("Enter")
    subtasks.wait_for(state="detached")


def test_figures_of_a_replay_stay_on_the_page(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    """Event time of another day takes more room, which long names leave to it; boxes hold them."""
    server = serve("normal")
    path = f"jobs/{server.look.jobs[0].jid}"
    document = server.look.documents[path]
    vertices = [
        vertex
        | {
            "name": f"slow: 20 ms a record -> Timestamps/Watermarks {vertex['name']}",
            "figures": vertex["figures"] | {"watermark": 86_400_000},
        }
        for vertex in document["vertices"]
    ]
    server.look.documents[path] = document | {"vertices": vertices}
    tab = open_tab(server.url, f"#/{path}/graph")
    stages = tab.page.get_by_role("group", name="Stages of the job")
    tab.until(lambda: "1970-01-02" in stages.inner_text(), "the watermark")
    assert stages.evaluate("table => table.scrollWidth - table.clientWidth") == 0
    over = (
        "stage => Math.max(...[...stage.querySelectorAll('text')]"
        ".map(text => text.getBBox()).map(box => box.x + box.width))"
    )
    boxes = tab.page.locator(".graph g.stage")
    assert boxes.count() == len(vertices)
    assert max(box.evaluate(over) for box in boxes.all()) < 232


def test_a_checkpoint_opens_to_stages_and_subtasks(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    job = server.look.jobs[0]
    tab = open_tab(server.url, f"#/jobs/{job.jid}/checkpoints/history")
    tab.page.get_by_role("button", name="Open checkpoint 124", exact=True).click()
    tab.page.get_by_role("button", name="Open join prices").click()
    table = tab.page.get_by_role("group", name="Subtasks of join prices in checkpoint 124")
    table.wait_for()
    found = server.look.documents[
        f"jobs/{job.jid}/checkpoints/details/124/subtasks/{job.vertex(3)}"
    ]["subtasks"][0]
    # 62 MiB over four subtasks are 15.5 MiB each.
    row = table.locator("tbody tr").first.inner_text().split("\t")
    assert [each.strip() for each in row[4:9]] == [
        "635 KiB",
        "15.5 MiB",
        f"{found['checkpoint']['sync']} ms",
        f"{found['checkpoint']['async']} ms",
        "0 ms",
    ]


def test_a_pinned_checkpoint_shows_stragglers(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    job = server.look.jobs[0]
    tab = open_tab(server.url, f"#/jobs/{job.jid}/checkpoints/timeline")
    tab.page.get_by_role("button", name="Checkpoint 120, Completed").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="Checkpoint 120").wait_for()
    # The last of four subtasks takes 0.95 of the checkpoint, the others at most half of it.
    bars = tab.page.locator(".stage-bars", has_text="join prices").locator("li")
    bars.nth(3).wait_for()
    flags = [bars.nth(index).locator(".bar-flag").inner_text() for index in range(4)]
    assert flags == ["", "", "", "straggler"]
    assert tab.page.url.endswith("/timeline/120")


def test_a_long_history_is_paged_sorted_and_filtered(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("huge")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}/checkpoints/history")
    ids = tab.page.locator(".row-id")
    ids.first.wait_for()
    assert (ids.count(), ids.first.inner_text()) == (50, "2100")
    tab.page.get_by_role("button", name="Next").click()
    tab.until(lambda: ids.first.inner_text() == "2050", "the second page")
    tab.page.get_by_role("button", name="ID", exact=True).click()
    tab.page.get_by_role("button", name="Previous").click()
    tab.until(lambda: ids.first.inner_text() == "101", "the oldest first")
    tab.page.get_by_role("searchbox").fill("failed")
    # Numbers that leave 3 when divided by 19: 117, 136, … up to 2093.
    failed = [number for number in range(101, 2101) if number % 19 == 3]
    tab.until(lambda: f"of {len(failed)}" in tab.text(".pager"), "only failed ones")
    assert ids.first.inner_text() == str(failed[0])


def test_a_refresh_moves_and_closes_nothing(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("failing")
    job = server.look.jobs[0]
    tab = open_tab(server.url, f"#/jobs/{job.jid}/exceptions")
    second = tab.page.locator("details").nth(1)
    second.locator("summary").click()
    second.locator("summary").focus()
    before = second.bounding_box()
    document = server.look.documents[f"jobs/{job.jid}"]
    server.look.documents[f"jobs/{job.jid}"] = document | {"restarts": 15, "name": "renamed"}
    server.tell("job")
    tab.until(lambda: tab.text("h1") == "renamed", "the event was not followed")
    assert tab.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert second.get_attribute("open") is not None
    assert second.bounding_box() == before


def test_typing_survives_a_refresh(serve: Callable[..., Any], open_tab: Callable[..., Any]) -> None:
    server = serve("huge")
    tab = open_tab(server.url)
    field = tab.page.get_by_role("searchbox")
    field.fill("load 11")
    rows = tab.page.locator(".job-link")
    # 11, and 110 to 119; the running job is in its own table.
    tab.until(lambda: rows.count() == 1 + 11, "the filter")
    seen = server.fetched.count("jobs/overview")
    tab.until(lambda: server.fetched.count("jobs/overview") > seen + 1, "a refresh")
    assert field.input_value() == "load 11"
    assert tab.page.evaluate("document.activeElement.type") == "search"


def test_times_are_local_with_utc_on_hover(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}/checkpoints/history")
    shown = tab.page.locator("time[title='2026-11-21 22:08:09.000 UTC']").first
    shown.wait_for()
    assert shown.inner_text() == "23:08:09"


def test_a_log_is_followed_and_searched(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    path = f"jobs/{server.look.jobs[0].jid}/log"
    tab = open_tab(server.url, f"#/jobs/{server.look.jobs[0].jid}/logs")
    tab.page.locator("#log").wait_for()
    server.look.texts[path] += "2026-11-21 22:08:18 ERROR the newest <b>line</b>\n"
    tab.until(lambda: "the newest <b>line</b>" in tab.text("#log"), "the log was not followed")
    at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 40"
    tab.until(lambda: tab.page.locator("#log").evaluate(at_end), "the end is not in view")
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="Download").click()
    assert started.value.suggested_filename == f"{server.look.jobs[0].jid}.log"
    assert started.value.path().read_text() == server.look.texts[path]
    tab.page.get_by_role("searchbox").fill("newest")
    tab.until(lambda: "1 line" in tab.text(), "the search")


def test_a_longer_history_is_shown_in_parts(
    serve: Callable[..., Any], open_tab: Callable[..., Any]
) -> None:
    server = serve("normal")
    path = f"jobs/{server.look.jobs[0].jid}/checkpoints"
    line = server.look.documents[path]["history"][1]
    history = [line | {"id": number} for number in range(5_000, 0, -1)]
    server.look.documents[path]["history"] = history
    tab = open_tab(server.url, f"#/{path}/history")
    first = tab.page.locator(".row-id").first
    parts = tab.page.get_by_label("Parts of the history")
    tab.until(lambda: "Checkpoints 1\N{EN DASH}2,000 of 5,000" in parts.inner_text(), "no parts")
    assert first.inner_text() == "5000"
    parts.get_by_role("button", name="Older").click()
    tab.until(lambda: first.inner_text() == "3000", "the older part is not shown")
    # New checkpoints move nothing.
    history.insert(0, line | {"id": 5_001})
    server.tell("checkpoints")
    tab.until(lambda: "2,002\N{EN DASH}4,001 of 5,001" in parts.inner_text(), "not told of")
    assert first.inner_text() == "3000"
    parts.get_by_role("button", name="Newer").click()
    tab.until(lambda: first.inner_text() == "5001", "the newest part is not shown")
