// Timeline: recent checkpoints on a line of time, and one of them as bars, subtask by subtask.

import { stagesOf } from "./checkpoint_stages.js";
import { h } from "./dom.js";
import { bytes, count, duration, localTime, period, share, time } from "./format.js";
import { checkpointDetails, checkpointSubtasks } from "./kept.js";
import { empty, figures, section } from "./parts.js";
import { link } from "./router.js";
import { badge, colourOf, labelOf } from "./states.js";
import { noCheckpoints } from "./tab_checkpoints.js";
import { gaps, phases, scaleStep, spans, stragglerLimit } from "./timeline_model.js";

const STRIP_CHECKPOINTS = 60;
const STRIP = { width: 1_000, top: 6, height: 34, scale: 22 };
const LEAST_WIDTH = 4;
const BAR = { width: 1_000, height: 14 };
const SHOWN_SUBTASKS = 64;
const SHOWN_STAGES = 20;

export function needs() {
  return {};
}

export function view(page, job, { history = [] }) {
  if (history.length === 0) return noCheckpoints(page);
  const ordered = spans(history, page.now).slice(-STRIP_CHECKPOINTS);
  const pinned = ordered.find(({ record }) => String(record.id) === page.route.item);
  const shown = pinned ?? latestEnded(ordered);
  return [
    overall(ordered),
    strip(page, job, ordered, shown?.record),
    legend(),
    shown
      ? bars(page, job, shown.record, Boolean(pinned))
      : empty(
          "No checkpoint has ended yet",
          "Its bars appear when its subtasks have acknowledged.",
        ),
  ];
}

function latestEnded(ordered) {
  return ordered.findLast(({ record }) => record.status !== "IN_PROGRESS");
}

function overall(ordered) {
  const { gaps: idle, busyShare } = gaps(ordered);
  const lengths = idle.map(({ start, end }) => end - start);
  const longest = lengths.length ? Math.max(...lengths) : 0;
  const isAlways = ordered.length > 2 && busyShare > 0.9;
  return [
    figures([
      ["Checkpoints shown", count(ordered.length)],
      ["Time span", duration(ordered.at(-1).end - ordered[0].start)],
      ["Checkpointing", share(busyShare), "Share of that time in which a checkpoint was under way"],
      ["Longest pause", duration(longest), "Longest time without a checkpoint under way"],
    ]),
    isAlways &&
      h(
        "p",
        { class: "warning" },
        "The job is always checkpointing. A longer interval or execution.checkpointing.min-pause leaves it time to work.",
      ),
  ];
}

function strip(page, job, ordered, shown) {
  const from = ordered[0].start;
  const until = Math.max(ordered.at(-1).end, from + 1);
  // Of the screen's pixels, not of the drawing's: on a phone a bar would be a hair.
  const least = LEAST_WIDTH * Math.max(STRIP.width / Math.max(page.width, 1), 1);
  const x = (ms) => ((ms - from) / (until - from)) * (STRIP.width - least);
  const step = scaleStep(until - from, page.width < 700 ? 4 : 9);
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) marks.push(at);
  const bottom = STRIP.top + STRIP.height;
  return h(
    "div",
    { class: "strip" },
    h(
      "svg",
      {
        viewBox: `0 0 ${STRIP.width} ${bottom}`,
        preserveAspectRatio: "none",
        role: "group",
        "aria-label": "Recent checkpoints in time",
      },
      h("rect", { class: "strip-idle", y: STRIP.top, width: STRIP.width, height: STRIP.height }),
      marks.map((at) =>
        h("line", {
          key: `mark ${at}`,
          class: "strip-mark",
          x1: x(at),
          x2: x(at),
          y1: 0,
          y2: bottom,
        }),
      ),
      ordered.map((span) => block(page, job, span, shown, { x, least })),
      ordered
        .filter(({ record }) => record.id === shown?.id)
        .map(({ record, start, end }) => {
          const width = Math.max(x(end) - x(start), least) + 8;
          return h("rect", {
            key: `pin ${record.id}`,
            class: "strip-pin",
            x: x(start) - 4,
            y: 0,
            width,
            height: 4,
          });
        }),
      ordered
        .filter(({ record }) => record.is_savepoint)
        .map(({ record, start }) =>
          h("rect", {
            key: `savepoint ${record.id}`,
            class: "strip-savepoint",
            x: x(start),
            y: bottom - 7,
            width: least,
            height: 7,
          }),
        ),
    ),
    h(
      "div",
      { class: "strip-scale", "aria-hidden": "true" },
      h("span", null, localTime(from, page.now)),
      h("span", null, `one mark every ${period(step)}`),
      h("span", null, localTime(until, page.now)),
    ),
  );
}

function block(page, job, { record, start, end }, shown, { x, least }) {
  const isShown = shown?.id === record.id;
  const took = duration(end - start);
  const words = `Checkpoint ${record.id}, ${labelOf(record.status)}, ${localTime(start, page.now)}, ${took}, ${bytes(record.checkpointed_size)}`;
  const pin = () => {
    location.hash = link("jobs", job.jid, "checkpoints", "timeline", record.id);
  };
  return h(
    "rect",
    {
      key: `block ${record.id}`,
      class: `fill block ${colourOf(record.status)}`,
      x: x(start),
      y: STRIP.top,
      width: Math.max(x(end) - x(start), least),
      height: STRIP.height,
      tabindex: "0",
      role: "button",
      "aria-pressed": String(isShown),
      "aria-label": words,
      onclick: pin,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pin();
      },
    },
    h("title", null, words),
  );
}

const PHASES = ["start delay", "alignment", "sync", "async"];

function legend() {
  return h(
    "ul",
    { class: "legend" },
    ["COMPLETED", "FAILED", "IN_PROGRESS"].map((state) => h("li", null, badge(state))),
    h("li", null, h("span", { class: "swatch savepoint", "aria-hidden": "true" }), "savepoint"),
    PHASES.map((name) =>
      h(
        "li",
        null,
        h("span", { class: `swatch phase-${name.replace(" ", "-")}`, "aria-hidden": "true" }),
        name,
      ),
    ),
    h(
      "li",
      null,
      h("span", { class: "swatch straggler", "aria-hidden": "true" }),
      "straggler: at least p95 and 1.5 × the median",
    ),
  );
}

function bars(page, job, record, isPinned) {
  const title = `${record.is_savepoint ? "Savepoint" : "Checkpoint"} ${record.id}`;
  const note = isPinned ? "pinned" : "the latest; click one above to pin it";
  const release =
    isPinned &&
    h(
      "a",
      { class: "button quiet", href: link("jobs", job.jid, "checkpoints", "timeline") },
      "Show the latest",
    );
  const details = checkpointDetails(page, job, record);
  const all = stagesOf(job, details);
  const stages = slowestStages(all);
  const longest = Math.max(...all.map((stage) => stage.end_to_end_duration ?? 0), 1);
  return section(
    title,
    { note, tools: release || null },
    h(
      "p",
      { class: "bars-facts" },
      badge(record.status),
      h("span", null, "triggered ", time(record.trigger_timestamp)),
      h("span", null, `took ${duration(record.end_to_end_duration)}`),
      h("span", null, `new ${bytes(record.checkpointed_size)} of ${bytes(record.state_size)}`),
      all.length > 0 &&
        h("span", null, `last acknowledgement after ${duration(longest)}, where the bars end`),
    ),
    record.failure_message && h("p", { class: "failure breaks" }, record.failure_message),
    stages.length < all.length &&
      h("p", { class: "note" }, `The ${SHOWN_STAGES} slowest of ${count(all.length)} stages`),
    stages.length === 0
      ? h(
          "p",
          { class: "none" },
          details === undefined ? "Waiting for its details…" : "Its subtasks are not known.",
        )
      : stages.map((stage) => stageBars(page, job, record, stage, longest)),
  );
}

// Each stage is a request of its own, so a wide job shows those that matter.
function slowestStages(stages) {
  if (stages.length <= SHOWN_STAGES) return stages;
  const byTime = [...stages].sort((a, b) => b.end_to_end_duration - a.end_to_end_duration);
  const kept = new Set(byTime.slice(0, SHOWN_STAGES));
  return stages.filter((stage) => kept.has(stage));
}

function stageBars(page, job, record, stage, longest) {
  const found = checkpointSubtasks(page, job, record, stage.id);
  const rows = (found?.subtasks ?? []).map((subtask) => ({ subtask, ...phases(subtask) }));
  const all = Math.max(longest, ...rows.map(({ total }) => total));
  const limit = stragglerLimit(rows.map(({ total }) => total));
  const slowest = [...rows].sort((a, b) => b.total - a.total).slice(0, SHOWN_SUBTASKS);
  const shown = rows.length > SHOWN_SUBTASKS ? slowest : rows;
  return h(
    "div",
    { class: "stage-bars", key: stage.id },
    h("h3", { class: "clipped", title: stage.name }, stage.name),
    found === undefined && h("p", { class: "waiting" }, "Waiting for its subtasks…"),
    shown.length < rows.length &&
      h("p", { class: "note" }, `The ${SHOWN_SUBTASKS} slowest of ${count(rows.length)} subtasks`),
    h(
      "ol",
      { class: "bars" },
      shown.map((row) => bar(row, all, limit)),
    ),
  );
}

function bar({ subtask, parts, rest, total }, all, limit) {
  const isStraggler = limit !== null && total >= limit && total > 0;
  const x = (ms) => (ms / all) * BAR.width;
  const words = parts.map(({ name, ms }) => `${name} ${duration(ms)}`).join(", ");
  return h(
    "li",
    { key: subtask.index, class: isStraggler ? "straggles" : null, title: words },
    h("span", { class: "bar-name" }, `#${subtask.index}`),
    h(
      "svg",
      {
        viewBox: `0 0 ${BAR.width} ${BAR.height}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Subtask ${subtask.index}: ${words}`,
      },
      h("rect", { class: "bar-all", width: BAR.width, height: BAR.height }),
      parts.map(({ name, start, ms }) =>
        h("rect", {
          class: `phase-${name.replace(" ", "-")}`,
          x: x(start),
          width: x(ms),
          height: BAR.height,
        }),
      ),
      h("rect", { class: "phase-rest", x: x(total - rest), width: x(rest), height: BAR.height }),
      isStraggler && h("rect", { class: "straggler-line", width: x(total), height: BAR.height }),
    ),
    h("span", { class: "bar-total" }, duration(total)),
    h("span", { class: "bar-flag" }, isStraggler ? "straggler" : ""),
  );
}
