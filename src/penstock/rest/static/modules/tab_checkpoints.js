// Checkpoints: five views of them.

import { askCheckpoint } from "./actions.js";
import * as configuration from "./checkpoint_configuration.js";
import { completedAt } from "./checkpoint_times.js";
import * as history from "./checkpoint_history.js";
import * as summary from "./checkpoint_summary.js";
import * as timeline from "./checkpoint_timeline.js";
import { h } from "./dom.js";
import { age, bytes, count, duration, period, time } from "./format.js";
import { copyButton, empty, facts, figures, missing, pathText, section, tabs } from "./parts.js";
import { restoreCommand } from "./restore.js";
import { link } from "./router.js";
import { isEnded } from "./states.js";

const VIEWS = {
  overview: { needs: () => ({}), view: overview },
  history,
  summary,
  configuration,
  timeline,
};
const NAMES = {
  overview: "Overview",
  history: "History",
  summary: "Summary",
  configuration: "Configuration",
  timeline: "Timeline",
};

const NEWEST = 200;

/** Where the part of the history is that a page shows. */
export function documentPath(base, route, local) {
  const path = `${base}/checkpoints`;
  return route.view === "history" ? history.windowPath(path, local) : `${path}?newest=${NEWEST}`;
}

export function needs(base, route, local) {
  return VIEWS[route.view].needs(base, route, local);
}

export function view(page, job) {
  const entries = Object.keys(VIEWS).map((name) => [
    NAMES[name],
    link("jobs", job.jid, "checkpoints", name),
    name === page.route.view,
  ]);
  const shown = page.data.checkpoints
    ? VIEWS[page.route.view].view(page, job, page.data.checkpoints)
    : missing(page, "checkpoints", "checkpoint history");
  return [
    h(
      "div",
      { class: "subtabs-line" },
      tabs("Views of the checkpoints", entries, "subtabs"),
      isEnded(job.state)
        ? null
        : h(
            "button",
            { type: "button", onclick: () => askCheckpoint(page, job) },
            "Checkpoint now",
          ),
    ),
    h("div", { class: "subtab", key: page.route.view }, shown),
  ];
}

function overview(page, job, checkpoints) {
  const { counts = {}, latest = {} } = checkpoints;
  const numbers = figures([
    ["Triggered", count(counts.total)],
    ["In progress", count(counts.in_progress)],
    ["Completed", count(counts.completed)],
    ["Failed", count(counts.failed)],
    ["Restored", count(counts.restored)],
  ]);
  if (!counts.total && !latest.restored) return [numbers, noCheckpoints(page)];
  return [
    numbers,
    h(
      "div",
      { class: "latest" },
      snapshot("Latest completed checkpoint", latest.completed, page, takesNow(job, "Checkpoint now")),
      snapshot("Latest savepoint", latest.savepoint, page, takesNow(job, "Savepoint")),
      failed(latest.failed),
      restored(latest.restored),
    ),
  ];
}

const takesNow = ({ state }, button) => (isEnded(state) ? "" : `“${button}” above takes one.`);

/** What to do when there is not a single checkpoint. */
export function noCheckpoints(page) {
  const interval = page.data.checkpointConfig?.interval;
  const isOff = typeof interval === "number" && (interval <= 0 || interval > 1e15);
  if (!isOff) {
    return empty(
      "No checkpoint has been triggered yet",
      typeof interval === "number"
        ? `One is taken every ${period(interval)}. “Checkpoint now” takes one at once.`
        : "“Checkpoint now” takes one at once.",
    );
  }
  return empty(
    "Checkpointing is off: a failure loses the job's state",
    "Set ",
    h("code", null, "execution.checkpointing.interval"),
    " and ",
    h("code", null, "execution.checkpointing.dir"),
    ", or call ",
    h("code", null, "env.enable_checkpointing(60_000)"),
    " in the program.",
  );
}

function snapshot(title, record, page, hint) {
  if (!record) return section(title, null, h("p", { class: "none" }, `None yet. ${hint}`));
  const path = record.external_path;
  return section(
    title,
    null,
    facts([
      [
        "Number",
        [
          `${count(record.id)} `,
          record.discarded ? h("span", { class: "flag" }, "discarded since") : null,
        ],
      ],
      ["Completed", [time(completedAt(record)), " · ", age(completedAt(record), page.now)]],
      ["End to end", duration(record.end_to_end_duration)],
      ["New data", bytes(record.checkpointed_size)],
      ["Full size", [bytes(record.state_size), inlineNote(record)]],
      path ? ["Path", [pathText(path), copyButton(path)]] : null,
    ]),
    path && !record.discarded ? restoreLine(path) : null,
  );
}

function inlineNote({ bytes_inline: inline }) {
  return inline > 0
    ? h("span", { class: "note" }, ` · ${bytes(inline)} of it inside _metadata`)
    : null;
}

function restoreLine(path) {
  const command = restoreCommand(path);
  return h(
    "p",
    { class: "command" },
    h("code", null, command),
    copyButton(command, "Copy restore command"),
  );
}

function failed(record) {
  if (!record) return null;
  return section(
    "Latest failed checkpoint",
    null,
    facts([
      ["Number", count(record.id)],
      ["Failed", time(record.failure_timestamp)],
      ["Reason", record.failure_reason ?? "–"],
      ["Message", record.failure_message ?? "–"],
    ]),
  );
}

function restored(record) {
  if (!record) return null;
  return section(
    "Restored from",
    null,
    facts([
      ["Number", [`${count(record.id)} `, badgeOfKind(record.is_savepoint)]],
      ["Restored", time(record.restore_timestamp)],
      record.external_path
        ? ["Path", [pathText(record.external_path), copyButton(record.external_path)]]
        : null,
    ]),
  );
}

export function badgeOfKind(isSavepoint) {
  return h("span", { class: "note" }, isSavepoint ? "savepoint" : "checkpoint");
}
