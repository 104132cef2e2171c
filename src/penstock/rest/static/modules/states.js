// States of jobs, tasks and checkpoints: Flink's names and colours, each with a word beside it.

import { h } from "./dom.js";

const LABELS = {
  INITIALIZING: "Initializing",
  CREATED: "Created",
  SCHEDULED: "Scheduled",
  DEPLOYING: "Deploying",
  RUNNING: "Running",
  FAILING: "Failing",
  FAILED: "Failed",
  CANCELLING: "Cancelling",
  CANCELING: "Canceling",
  CANCELED: "Canceled",
  FINISHED: "Finished",
  RESTARTING: "Restarting",
  SUSPENDED: "Suspended",
  RECONCILING: "Reconciling",
  IN_PROGRESS: "In progress",
  COMPLETED: "Completed",
};

const ENDED = new Set(["FAILED", "CANCELED", "FINISHED", "SUSPENDED"]);

/** Whether a job in this state will not change any more on this service. */
export const isEnded = (state) => ENDED.has(state);

/** The class that carries the colour of a state. */
export function colourOf(state) {
  return LABELS[state] ? `state-${state.toLowerCase().replace("_", "-")}` : "state-unknown";
}

export const labelOf = (state) => LABELS[state] ?? String(state ?? "Unknown");

/** A state: a coloured mark and its name. */
export function badge(state) {
  return h(
    "span",
    { class: `badge ${colourOf(state)}` },
    h("span", { class: "mark", "aria-hidden": "true" }),
    labelOf(state),
  );
}

const TASK_ORDER = [
  "failed",
  "canceling",
  "canceled",
  "created",
  "scheduled",
  "deploying",
  "initializing",
  "reconciling",
  "running",
  "finished",
];

/** Numbers of tasks by state, as a bar and as words; in brief the words are on hover. */
export function taskBar(tasks, { brief = false } = {}) {
  const lower = Object.fromEntries(
    Object.entries(tasks ?? {}).map(([name, number]) => [name.toLowerCase(), number]),
  );
  const parts = TASK_ORDER.map((name) => [name, lower[name] ?? 0]).filter(([, n]) => n > 0);
  const total = parts.reduce((sum, [, n]) => sum + n, 0);
  if (total === 0) return h("span", { class: "none" }, "–");
  const words = parts.map(([name, n]) => `${n} ${name}`).join(", ");
  let from = 0;
  const bars = parts.map(([name, n]) => {
    const x = (from / total) * 100;
    from += n;
    const width = (n / total) * 100;
    return h("rect", { class: `fill ${colourOf(name.toUpperCase())}`, x, y: 0, width, height: 6 });
  });
  return h(
    "span",
    { class: "task-bar", title: words },
    h("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, bars),
    brief
      ? [h("span", { "aria-hidden": "true" }, total), h("span", { class: "unseen" }, words)]
      : h("span", { class: "task-words" }, parts.length === 1 ? words : `${total}: ${words}`),
  );
}
