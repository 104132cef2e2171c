// What can be asked of a job: each opens a dialog that says what will happen, and asks once.

import { change, newTriggerId, operation } from "./api.js";
import { dialog, field, choice, tick } from "./dialog.js";
import { h } from "./dom.js";
import { notice } from "./notices.js";
import { restoreCommand } from "./restore.js";

const FORMATS = [
  ["CANONICAL", "Canonical", "One layout for every state backend"],
  ["NATIVE", "Native", "The backend's own files: faster to take and to restore"],
];

const base = (job) => `jobs/${encodeURIComponent(job.jid)}`;

export function askSavepoint(page, job) {
  dialog({
    title: "Take a savepoint",
    text: [h("p", null, "The job goes on running. The savepoint is kept until you delete it.")],
    fields: [directoryField(), choice("format", "Format", FORMATS)],
    action: "Take savepoint",
    onSubmit: (values) =>
      run(page, job, {
        what: "Savepoint",
        path: `${base(job)}/savepoints`,
        body: {
          "target-directory": values.directory || null,
          "cancel-job": false,
          formatType: values.format,
        },
      }),
  });
}

export function askStop(page, job) {
  dialog({
    title: "Stop with a savepoint",
    text: [
      h(
        "p",
        null,
        "All output that belongs to the savepoint becomes visible, then the job finishes. Start it again from the savepoint whenever you like.",
      ),
    ],
    fields: [
      directoryField(),
      choice("format", "Format", FORMATS),
      tick(
        "drain",
        "Drain",
        "End event time first: all windows and timers fire. Do not resume from such a savepoint.",
      ),
    ],
    action: "Stop job",
    onSubmit: (values) =>
      run(page, job, {
        what: "Stop",
        path: `${base(job)}/stop`,
        body: {
          targetDirectory: values.directory || null,
          drain: values.drain,
          formatType: values.format,
        },
      }),
  });
}

export function askCheckpoint(page, job) {
  run(page, job, {
    what: "Checkpoint",
    path: `${base(job)}/checkpoints`,
    body: { checkpointType: "CONFIGURED" },
  });
}

export function askRescale(page, job) {
  dialog({
    title: "Rescale the job",
    text: [
      h(
        "p",
        null,
        "A checkpoint is taken, and the job continues from it with another number of subtasks. Operators with a parallelism of their own keep it.",
      ),
    ],
    fields: [
      field("parallelism", "Parallelism", {
        hint: "How many subtasks each of the other operators gets.",
        placeholder: String(Math.max(...job.vertices.map((vertex) => vertex.parallelism))),
      }),
    ],
    action: "Rescale",
    onSubmit: ({ parallelism }) =>
      run(page, job, {
        what: "Rescale",
        method: "PATCH",
        path: `${base(job)}/rescaling?parallelism=${encodeURIComponent(parallelism)}`,
        body: {},
      }),
  });
}

export function askCancel(page, job) {
  dialog({
    title: "Cancel this job?",
    text: [
      h(
        "p",
        { class: "breaks" },
        "“",
        h("strong", null, job.name),
        "” ends at once, without a savepoint. Records since the last checkpoint are not in any snapshot, and a cancelled job never returns by itself.",
      ),
      h("p", null, keptOnCancel(page)),
    ],
    fields: [],
    action: "Cancel job",
    dismiss: "Keep running",
    isDanger: true,
    onSubmit: () => cancel(page, job),
  });
}

function keptOnCancel(page) {
  const kept = page.data.checkpointConfig?.externalization;
  if (!kept) return "To be able to go on later, use Stop instead: it takes a savepoint first.";
  return kept.enabled && !kept.delete_on_cancellation
    ? "Its checkpoints are retained, as its configuration says."
    : "Its checkpoints are deleted, as its configuration says. To go on later, use Stop instead.";
}

async function cancel(page, job) {
  const put = notice({ kind: "busy", title: "Cancelling the job…", text: job.name });
  try {
    await change("PATCH", `${base(job)}?mode=cancel`, {});
    put({ kind: "done", title: "The job is being cancelled", text: job.name });
  } catch (error) {
    put({ kind: "failed", title: "The job was not cancelled", text: error.message });
  }
  page.refresh();
}

function directoryField() {
  return field("directory", "Directory", {
    hint: "Where the savepoint goes. Empty: the configured savepoint directory.",
    placeholder: "configured directory",
  });
}

async function run(page, job, { what, path, body, method = "POST" }) {
  const put = notice({ kind: "busy", title: `${what} under way…`, text: job.name });
  const triggerId = newTriggerId();
  try {
    const answer = await change(method, path, { ...body, triggerId });
    page.refresh();
    // A stop is a savepoint; all others are asked about where they were begun.
    const kind = what === "Stop" ? `${base(job)}/savepoints` : path.split("?")[0];
    const result = await operation(kind, answer["request-id"] ?? triggerId);
    put(doneNote(what, result));
  } catch (error) {
    put({ kind: "failed", title: `${what} failed`, text: error.message });
  }
  page.refresh();
}

function doneNote(what, result) {
  if (what === "Rescale") {
    return { kind: "done", title: `Rescaled, from checkpoint ${result.checkpointId}` };
  }
  if (!result.location) {
    const number = result.checkpointId ?? result.checkpoint_id;
    return { kind: "done", title: `${what} ${number ?? ""} completed`.replace("  ", " ") };
  }
  return {
    kind: "done",
    title: what === "Stop" ? "The job has stopped; savepoint completed" : "Savepoint completed",
    text: result.location,
    command: restoreCommand(result.location),
  };
}
