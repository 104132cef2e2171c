// The stages of one checkpoint, and the subtasks of a stage, as tables.

import { h } from "./dom.js";
import { bytes, count, duration, time } from "./format.js";
import { checkpointSubtasks } from "./kept.js";
import { clipped } from "./parts.js";
import { badge } from "./states.js";
import { table } from "./table.js";

/** Names of a job's vertices by id. */
export function vertexNames(job) {
  return new Map((job.vertices ?? []).map(({ id, name }) => [id, name]));
}

/** Stages of a checkpoint in the order of the job graph; `details` is the service's document. */
export function stagesOf(job, details) {
  const names = vertexNames(job);
  const order = [...names.keys()];
  const place = (id) => (order.includes(id) ? order.indexOf(id) : order.length);
  return Object.entries(details?.tasks ?? {})
    .map(([id, task]) => ({ ...task, id, name: names.get(id) ?? task.name ?? id }))
    .sort((a, b) => place(a.id) - place(b.id));
}

/** The stages, each of which opens to its subtasks. */
export function stageTables(page, job, row, details) {
  const rows = stagesOf(job, details);
  if (rows.length === 0) {
    return h("p", { class: "none" }, "Nothing more is known of this checkpoint.");
  }
  return table(
    {
      id: `checkpoint ${row.id}`,
      caption: `Stages in checkpoint ${row.id}`,
      dense: true,
      columns: STAGE_COLUMNS,
      rows,
      rowKey: ({ id }) => id,
      rowName: ({ name }) => name,
      detail: (stage) => subtasks(page, job, row, stage),
      empty: "No stages.",
    },
    page,
  );
}

function column(id, label, value, show) {
  return { id, label, number: true, sort: value, cell: (row) => show(value(row)) };
}

const STAGE_COLUMNS = [
  { id: "name", label: "Stage", wide: true, cell: ({ name }) => clipped(name) },
  {
    id: "acknowledged",
    label: "Acknowledged",
    number: true,
    cell: (row) => `${count(row.num_acknowledged_subtasks)}/${count(row.num_subtasks)}`,
  },
  column("ack", "Latest acknowledgement", (row) => row.latest_ack_timestamp, time),
  column("duration", "End to end", (row) => row.end_to_end_duration, duration),
  column("new", "New data", (row) => row.checkpointed_size, bytes),
  column("full", "Full size", (row) => row.state_size, bytes),
];

const SUBTASK_COLUMNS = [
  column("index", "Subtask", (row) => row.index, count),
  {
    id: "status",
    label: "Status",
    cell: (row) => badge(String(row.status ?? "").toUpperCase()),
  },
  column("ack", "Acknowledged", (row) => row.ack_timestamp, time),
  column("duration", "End to end", (row) => row.end_to_end_duration, duration),
  column("new", "New data", (row) => row.checkpointed_size, bytes),
  column("full", "Full size", (row) => row.state_size, bytes),
  column("sync", "Sync", (row) => row.checkpoint?.sync, duration),
  column("async", "Async", (row) => row.checkpoint?.async, duration),
  column("alignment", "Alignment", (row) => row.alignment?.duration, duration),
  column("delay", "Start delay", (row) => row.start_delay, duration),
];

function subtasks(page, job, row, stage) {
  const found = checkpointSubtasks(page, job, row, stage.id);
  if (found === undefined)
    return h("p", { class: "waiting", "aria-busy": "true" }, "Waiting for its subtasks…");
  if (!found?.subtasks?.length) return h("p", { class: "none" }, "Its subtasks are not known.");
  return h(
    "div",
    { class: "detail-body" },
    summaryTable(found.summary),
    table(
      {
        id: `checkpoint ${row.id} ${stage.id}`,
        caption: `Subtasks of ${stage.name} in checkpoint ${row.id}`,
        dense: true,
        columns: SUBTASK_COLUMNS,
        rows: found.subtasks,
        rowKey: ({ index }) => index,
        empty: "No subtasks.",
      },
      page,
    ),
  );
}

function summaryTable(summary) {
  if (!summary) return null;
  const values = [
    summary.end_to_end_duration,
    summary.checkpointed_size,
    summary.state_size,
    summary.checkpoint_duration?.sync,
    summary.checkpoint_duration?.async,
    summary.alignment?.duration,
    summary.start_delay,
  ];
  const shows = [duration, bytes, bytes, duration, duration, duration, duration];
  const labels = [
    "End to end",
    "New data",
    "Full size",
    "Sync",
    "Async",
    "Alignment",
    "Start delay",
  ];
  const line = (name, key) =>
    h(
      "tr",
      { key },
      h("th", { scope: "row" }, name),
      values.map((value, index) =>
        h("td", { class: "number", "data-label": labels[index] }, shows[index](value?.[key])),
      ),
    );
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "dense least" },
      h("caption", { class: "unseen" }, "Least, average and largest over the subtasks"),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("td", null),
          labels.map((label) => h("th", { scope: "col", class: "number" }, label)),
        ),
      ),
      h("tbody", null, line("Least", "min"), line("Average", "avg"), line("Largest", "max")),
    ),
  );
}
