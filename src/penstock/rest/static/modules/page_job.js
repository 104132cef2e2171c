// One job: its name and state, what can be asked of it, and a tab for each kind of thing to know.

import { askCancel, askRescale, askSavepoint, askStop } from "./actions.js";
import { completedAt } from "./checkpoint_times.js";
import * as checkpoints from "./tab_checkpoints.js";
import * as configuration from "./tab_configuration.js";
import { h } from "./dom.js";
import * as exceptions from "./tab_exceptions.js";
import { age, count, elapsed, time } from "./format.js";
import * as graph from "./tab_graph.js";
import * as logs from "./tab_logs.js";
import * as state from "./tab_state.js";
import { copyButton, empty, missing, tabs } from "./parts.js";
import { link } from "./router.js";
import { badge, isEnded } from "./states.js";

const TABS = { graph, checkpoints, state, exceptions, configuration, logs };
const TROUBLED = new Set(["FAILING", "FAILED", "RESTARTING"]);
const NAMES = {
  graph: "Graph",
  checkpoints: "Checkpoints",
  state: "State",
  exceptions: "Exceptions",
  configuration: "Configuration",
  logs: "Logs",
};

export function needs(route, local) {
  const base = `jobs/${encodeURIComponent(route.job)}`;
  return {
    resources: {
      job: { path: base, document: "job" },
      checkpoints: { path: checkpoints.documentPath(base, route, local), document: "checkpoints" },
      exceptions: { path: `${base}/exceptions`, document: "exceptions" },
      checkpointConfig: { path: `${base}/checkpoints/config`, document: "checkpoint-config" },
      ...TABS[route.tab].needs(base, route, local),
    },
    events: `${base}/events`,
  };
}

export function view(page) {
  const { route, data } = page;
  const { job } = data;
  const title = job?.name ?? "Job";
  if (!job) return { title, content: [crumbs(route.job), unknownJob(page)] };
  const content = [
    crumbs(title),
    header(page, job),
    trouble(page, job),
    overdue(page, job),
    tabs("Parts of the job", tabEntries(page)),
    h("div", { class: "tab", key: route.tab }, TABS[route.tab].view(page, job)),
  ];
  return { title, content };
}

function crumbs(title) {
  return h(
    "nav",
    { class: "crumbs", "aria-label": "Where this is" },
    h("a", { href: "#/" }, "Jobs"),
    h("span", { "aria-hidden": "true" }, "/"),
    h("span", { class: "clipped" }, title),
  );
}

function unknownJob(page) {
  if (!("job" in page.data) || page.errors.job) return missing(page, "job", "job");
  return empty(
    "There is no such job",
    "It may have been removed from the history of ended jobs. ",
    h("a", { href: "#/" }, "See all jobs"),
    ".",
  );
}

function tabEntries({ route, data }) {
  const found = data.exceptions?.exceptionHistory?.entries?.length ?? 0;
  const extra = { exceptions: found ? count(found) : null };
  return Object.keys(TABS).map((tab) => [
    NAMES[tab],
    link("jobs", route.job, tab),
    tab === route.tab,
    extra[tab],
  ]);
}

function header(page, job) {
  const hasEnded = isEnded(job.state);
  const lasted = hasEnded ? job.duration : Math.max(page.now - job["start-time"], 0);
  const { restarts } = job;
  const latest = page.data.checkpoints?.latest?.completed;
  return h(
    "div",
    { class: "job-head" },
    h(
      "div",
      { class: "job-title" },
      h("h1", { class: "breaks", title: job.name }, job.name),
      badge(job.state),
    ),
    h(
      "div",
      { class: "actions", role: "group", "aria-label": "Ask of the job" },
      actions(page, job, hasEnded),
    ),
    h(
      "dl",
      { class: "job-facts" },
      fact("Job ID", [h("code", { class: "id" }, job.jid), copyButton(job.jid)]),
      fact("Started", time(job["start-time"])),
      hasEnded ? fact("Ended", time(job["end-time"])) : null,
      fact("Duration", elapsed(lasted)),
      typeof restarts === "number" ? fact("Restarts", count(restarts)) : null,
      latest ? fact("Last checkpoint", age(completedAt(latest), page.now)) : null,
    ),
  );
}

// Why a job does not run; where it went wrong is a click away.
function trouble({ route, data }, job) {
  const [latest] = data.exceptions?.exceptionHistory?.entries ?? [];
  if (!latest || !TROUBLED.has(job.state) || route.tab === "exceptions") return null;
  return h(
    "p",
    { class: "trouble" },
    h("span", { class: "breaks" }, exceptions.headline(latest)),
    h("a", { href: link("jobs", job.jid, "exceptions") }, "See the exception"),
  );
}

// An epoch that does not end, with the function that keeps it.
function overdue({ now }, { overdue: found }) {
  if (!found) return null;
  const lasted = elapsed(Math.max(now - found["start-time"], 0));
  return h(
    "div",
    { class: "trouble overdue" },
    h(
      "span",
      { class: "breaks" },
      `Epoch ${count(found.epoch)} has run for ${lasted}. Until it ends there is no checkpoint and no output.`,
    ),
    found.tasks.map((task) =>
      h(
        "details",
        { class: "fold", key: `${task.task} ${task.subtask}` },
        h("summary", null, h("span", { class: "clipped" }, whereabouts(task))),
        exceptions.trace({ stacktrace: task.stack }),
      ),
    ),
  );
}

function whereabouts({ operator, task, subtask, parallelism, record }) {
  const given = record === null ? "" : `, record ${record}`;
  return `${operator ?? task}, subtask ${subtask + 1} of ${parallelism}${given}`;
}

function fact(name, value) {
  return h("div", { key: name }, h("dt", null, name), h("dd", null, value));
}

function actions(page, job, hasEnded) {
  if (hasEnded) return null;
  const ask = (what) => () => what(page, job);
  const canCancel = page.features["web-cancel"] !== false;
  const away = page.connection.state === "away";
  const ending = {
    disabled: away || !canCancel,
    title: canCancel ? null : "Switched off by web.cancel.enable",
  };
  return [
    h("button", { type: "button", disabled: away, onclick: ask(askSavepoint) }, "Savepoint"),
    h("button", { type: "button", disabled: away, onclick: ask(askRescale) }, "Rescale"),
    h("button", { type: "button", ...ending, onclick: ask(askStop) }, "Stop"),
    h("button", { type: "button", class: "danger", ...ending, onclick: ask(askCancel) }, "Cancel"),
  ];
}
