// History: one line a checkpoint; opens to the operators, and those to their subtasks.

import { stageTables } from "./checkpoint_stages.js";
import { h } from "./dom.js";
import { bytes, count, duration, isNumber, time } from "./format.js";
import { checkpointDetails } from "./kept.js";
import { copyButton, facts, pathText } from "./parts.js";
import { restoreCommand } from "./restore.js";
import { badge } from "./states.js";
import { noCheckpoints } from "./tab_checkpoints.js";
import { table } from "./table.js";

export function needs() {
  return {};
}

// A long history is fetched in parts. One is named by the number that it begins below, so that it
// stays the same while new checkpoints come.
const PART = 2_000;

const partsOf = (local) => (local.historyParts ??= []);

/** Where the part of the history is that is shown now. */
export function windowPath(path, local) {
  const below = partsOf(local).at(-1);
  return `${path}?newest=${PART}${below === undefined ? "" : `&older_than=${below}`}`;
}

export function view(page, job, checkpoints) {
  const { history = [] } = checkpoints;
  if (history.length === 0 && partsOf(page.local).length === 0) return noCheckpoints(page);
  return [historyTable(page, job, history), parts(page, checkpoints)];
}

function parts(page, { history, history_total: total = 0, history_first: first = 0 }) {
  if (total <= PART) return null;
  const known = partsOf(page.local);
  const last = first + history.length;
  const go = (change) => () =>
    page.update(() => {
      change();
      page.local.history = { ...page.local.history, page: 0 };
    });
  return h(
    "nav",
    { class: "pager", "aria-label": "Parts of the history" },
    h("span", null, `Checkpoints ${count(first + 1)}–${count(last)} of ${count(total)}, newest first`),
    h("button", { type: "button", disabled: known.length === 0, onclick: go(() => known.pop()) }, "Newer"),
    h(
      "button",
      { type: "button", disabled: last >= total, onclick: go(() => known.push(history.at(-1).id)) },
      "Older",
    ),
  );
}

function historyTable(page, job, history) {
  return table(
    {
      id: "history",
      caption: "History of checkpoints",
      columns: COLUMNS,
      rows: history,
      rowKey: ({ id }) => id,
      rowName: ({ id }) => `checkpoint ${id}`,
      searchText: (row) =>
        `${row.id} ${row.status} ${kindOf(row)} ${row.failure_reason ?? ""} ${row.failure_message ?? ""}`,
      detail: (row) => detail(page, job, row),
      empty: "No checkpoints.",
    },
    page,
  );
}

export function kindOf(record) {
  if (record.is_savepoint) return "savepoint";
  return record.checkpoint_type === "FULL_CHECKPOINT" ? "full checkpoint" : "checkpoint";
}

function sized(id, label, name, show, hint) {
  return {
    id,
    label,
    hint,
    number: true,
    sort: (row) => row[name],
    cell: (row) => show(row[name]),
  };
}

const COLUMNS = [
  {
    id: "id",
    label: "ID",
    sort: ({ id }) => id,
    cell: ({ id }) => h("span", { class: "row-id" }, String(id)),
  },
  {
    id: "status",
    label: "Status",
    sort: ({ status }) => status,
    cell: ({ status }) => badge(status),
  },
  { id: "kind", label: "Kind", sort: kindOf, cell: kindOf },
  {
    id: "acknowledged",
    label: "Acknowledged",
    number: true,
    cell: (row) => acknowledged(row),
  },
  {
    id: "trigger",
    label: "Triggered",
    number: true,
    sort: (row) => row.trigger_timestamp,
    cell: (row) => time(row.trigger_timestamp),
  },
  {
    id: "ack",
    label: "Latest acknowledgement",
    number: true,
    sort: (row) => row.latest_ack_timestamp,
    cell: (row) => time(row.latest_ack_timestamp),
  },
  sized("duration", "End to end", "end_to_end_duration", duration),
  sized("new", "New data", "checkpointed_size", bytes, "Bytes that this checkpoint wrote"),
  sized("full", "Full size", "state_size", bytes, "Bytes that a restore from it reads"),
  sized(
    "inline",
    "Inline",
    "bytes_inline",
    bytes,
    "Small state travels inside _metadata, without files of its own",
  ),
  {
    id: "files",
    label: "Files",
    number: true,
    hint: "Written, and reused from earlier checkpoints",
    sort: (row) => row.files,
    cell: (row) => files(row),
  },
  { id: "reason", label: "Reason", wide: true, cell: (row) => reason(row) },
];

function acknowledged({ num_acknowledged_subtasks: done, num_subtasks: all }) {
  const part = all > 0 ? ` (${Math.floor((done / all) * 100)}%)` : "";
  return `${count(done)}/${count(all)}${part}`;
}

function files({ files: written, files_reused: reused }) {
  if (!isNumber(written)) return "–";
  const text = reused > 0 ? `${count(written)} + ${count(reused)}` : count(written);
  return h("span", { title: `${count(written)} written, ${count(reused)} reused` }, text);
}

function reason(row) {
  const text = row.failure_reason ?? row.failure_message;
  if (!text) return "–";
  return h("span", { class: "clipped", title: row.failure_message ?? text }, text);
}

function detail(page, job, row) {
  const details = checkpointDetails(page, job, row);
  return h(
    "div",
    { class: "detail-body" },
    row.failure_message && h("p", { class: "failure breaks" }, row.failure_message),
    facts([
      row.external_path
        ? ["Path", [pathText(row.external_path), copyButton(row.external_path)]]
        : null,
      row.external_path && !row.discarded
        ? [
            "Restore",
            [
              h("code", null, restoreCommand(row.external_path)),
              copyButton(restoreCommand(row.external_path), "Copy restore command"),
            ],
          ]
        : null,
      row.discarded ? ["Kept", "no: it has been deleted since"] : null,
      isNumber(row.epoch) && row.epoch > 0 ? ["Epoch", count(row.epoch)] : null,
      row.savepointFormat ? ["Format", row.savepointFormat] : null,
      isNumber(row.leader_epoch) && row.leader_epoch > 0
        ? ["Leader epoch", count(row.leader_epoch)]
        : null,
    ]),
    details === undefined
      ? h("p", { class: "waiting", "aria-busy": "true" }, "Waiting for its details…")
      : stageTables(page, job, row, details),
  );
}
