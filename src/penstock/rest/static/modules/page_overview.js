// All jobs of the service, and what the cluster has.

import { h } from "./dom.js";
import { age, count, elapsed, time } from "./format.js";
import { clipped, empty, figures, missing, section } from "./parts.js";
import { link } from "./router.js";
import { badge, isEnded, taskBar } from "./states.js";
import { table } from "./table.js";

export function needs() {
  return {
    resources: { jobs: { path: "jobs/overview" }, cluster: { path: "overview" } },
    events: null,
  };
}

export function view(page) {
  const { jobs, cluster } = page.data;
  const content = [h("h1", null, "Jobs"), cluster ? clusterFigures(cluster) : null];
  if (!jobs) return { title: "Jobs", content: [...content, missing(page, "jobs", "list of jobs")] };
  const running = jobs.jobs.filter(({ state }) => !isEnded(state));
  const ended = jobs.jobs.filter(({ state }) => isEnded(state));
  content.push(
    section(
      "Running jobs",
      { note: running.length ? count(running.length) : null },
      running.length === 0 ? noRunning(ended.length > 0) : runningTable(running, page),
    ),
    section(
      "Completed jobs",
      { note: ended.length ? count(ended.length) : null },
      ended.length === 0
        ? empty("No job has ended yet", "Jobs that finish, fail or are cancelled stay listed here.")
        : endedTable(ended, page),
    ),
  );
  return { title: "Jobs", content };
}

function clusterFigures(cluster) {
  return figures([
    ["Running", count(cluster["jobs-running"])],
    ["Finished", count(cluster["jobs-finished"])],
    ["Canceled", count(cluster["jobs-cancelled"])],
    ["Failed", count(cluster["jobs-failed"])],
    ["Executors", count(cluster.taskmanagers), "Processes that run the tasks of running jobs"],
    ["Cores", count(cluster["slots-total"]), "Tasks of running jobs that can run at once"],
  ]);
}

function noRunning(hasEnded) {
  return empty(
    hasEnded ? "No job is running now" : "No job has been submitted yet",
    "Submit one from a terminal: ",
    h("code", null, "penstock run -d my_job.py"),
    ". To see something move first: ",
    h("code", null, "penstock demo"),
    ".",
  );
}

const name = {
  id: "name",
  label: "Name",
  wide: true,
  sort: (job) => job.name,
  cell: (job) => h("a", { class: "job-link", href: link("jobs", job.jid) }, clipped(job.name)),
};
const state = {
  id: "state",
  label: "State",
  sort: (job) => job.state,
  cell: (job) => badge(job.state),
};
const started = {
  id: "start",
  label: "Started",
  number: true,
  sort: (job) => job["start-time"],
  cell: (job) => time(job["start-time"]),
};
const tasks = { id: "tasks", label: "Tasks", cell: (job) => taskBar(withoutTotal(job.tasks)) };
const restarts = {
  id: "restarts",
  label: "Restarts",
  number: true,
  sort: (job) => job.restarts,
  cell: (job) => count(job.restarts),
};

function withoutTotal(tasks) {
  const { total: _total, ...byState } = tasks ?? {};
  return byState;
}

function lasted(page) {
  const value = (job) =>
    isEnded(job.state) ? job.duration : Math.max(page.now - job["start-time"], 0);
  return {
    id: "duration",
    label: "Duration",
    number: true,
    sort: value,
    cell: (job) => elapsed(value(job)),
  };
}

function runningTable(rows, page) {
  const checkpoint = {
    id: "checkpoint",
    label: "Last checkpoint",
    number: true,
    hint: "How long ago the latest checkpoint was completed",
    sort: (job) => job["last-checkpoint-timestamp"],
    cell: (job) => age(job["last-checkpoint-timestamp"], page.now),
  };
  const columns = [name, state, started, lasted(page), tasks, checkpoint, restarts];
  return jobTable("running", "Running jobs", columns, rows, page);
}

function endedTable(rows, page) {
  const end = {
    id: "end",
    label: "Ended",
    number: true,
    sort: (job) => job["end-time"],
    cell: (job) => time(job["end-time"]),
  };
  const columns = [name, state, started, end, lasted(page), tasks, restarts];
  return jobTable("ended", "Completed jobs", columns, rows, page);
}

function jobTable(id, caption, columns, rows, page) {
  return table(
    {
      id,
      caption,
      columns,
      rows,
      rowKey: (job) => job.jid,
      searchText: (job) => `${job.name} ${job.jid} ${job.state}`,
      empty: "No jobs.",
    },
    page,
  );
}
