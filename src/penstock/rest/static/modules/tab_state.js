// State: what a retained snapshot holds, operator by operator, and the first rows of each state.
//
// A snapshot is read when somebody looks, and stays on the screen until they choose another one: a
// job may replace its checkpoints several times a second.

import { getJson } from "./api.js";
import { h } from "./dom.js";
import { age, bytes, count, localTime } from "./format.js";
import { clipped, empty, figures, missing, section } from "./parts.js";
import { rowsOf } from "./state_rows.js";
import { isInMemory, retained } from "./state_snapshots.js";
import { noCheckpoints } from "./tab_checkpoints.js";
import { table } from "./table.js";

const ROWS_MS = 60_000;
const LATEST = "latest";

export function needs() {
  return {};
}

export function view(page, job) {
  const { checkpoints } = page.data;
  if (!checkpoints) return missing(page, "checkpoints", "checkpoint history");
  const snapshots = retained(checkpoints);
  const state = (page.local.snapshot ??= { chosen: LATEST, asked: new Map(), round: 0 });
  if (snapshots.length === 0 && !state.seen) return noSnapshot(page, checkpoints);
  if (snapshots.length > 0 && snapshots.every(isInMemory)) return inMemory();
  const answer = ask(page, state, snapshotPath(job, state), "");
  state.seen ||= Boolean(answer.found);
  return [
    choice(page, state, snapshots, answer.found),
    answer.error
      ? unreadable(answer)
      : answer.found
        ? contents(page, job, state, answer.found)
        : h("p", { class: "waiting", "aria-busy": "true" }, "Reading the snapshot…"),
  ];
}

// Asked once for each path and round; what came of it stays.
function ask(page, state, path, parameters) {
  const name = `${state.round} ${path}${parameters}`;
  if (!state.asked.has(name)) {
    const entry = { found: null, error: null };
    entry.retry = () => page.update(() => state.asked.delete(name));
    state.asked.set(name, entry);
    getJson(`${path}${parameters}`, ROWS_MS).then(
      (found) => page.update(() => Object.assign(entry, found ? { found } : { error: GONE })),
      (error) => page.update(() => (entry.error = error.message)),
    );
  }
  return state.asked.get(name);
}

const GONE = "This snapshot is not there any more: its job has deleted it. Choose another one.";

function snapshotPath({ jid }, { chosen }) {
  const path = `jobs/${encodeURIComponent(jid)}/state`;
  return chosen === LATEST ? path : `${path}?checkpoint=${chosen}`;
}

// Rows are those of the snapshot on the screen; who looks at the latest one also takes a newer one.
function rowsPath({ jid }, { chosen }, shown, uid, name) {
  const parameters = new URLSearchParams({ uid, checkpoint: shown });
  if (name !== null) parameters.set("state", name);
  if (chosen === LATEST) parameters.set("or_latest", "true");
  return [`jobs/${encodeURIComponent(jid)}/state/rows`, `?${parameters}`];
}

function noSnapshot(page, { counts = {} }) {
  if (!counts.total) return noCheckpoints(page);
  return empty(
    "No snapshot of this job is there to be read",
    "Its checkpoints have failed or were deleted. Retain them with ",
    h("code", null, "execution.checkpointing.externalized-checkpoint-retention"),
    ", or take a savepoint while the job runs.",
  );
}

function inMemory() {
  return empty(
    "The checkpoints of this job are in the memory of its process",
    "Nobody else can read them there. Take a savepoint into a directory, or set ",
    h("code", null, "execution.checkpointing.dir"),
    ".",
  );
}

function unreadable({ error, retry }) {
  return h(
    "div",
    { class: "empty failed", role: "alert" },
    h("strong", null, "The snapshot could not be read"),
    h("p", { class: "breaks" }, error),
    h("button", { type: "button", onclick: retry }, "Try again"),
  );
}

function choice(page, state, snapshots, found) {
  const choose = (chosen) =>
    page.update(() => {
      state.chosen = chosen;
      state.round += 1;
      state.asked.clear();
    });
  const [newest] = snapshots;
  const isGone = state.chosen !== LATEST && snapshots.every(({ id }) => String(id) !== state.chosen);
  const isOld = found && state.chosen === LATEST && newest && newest.id > found.checkpoint_id;
  return h(
    "div",
    { class: "state-choice" },
    h(
      "label",
      { class: "filter" },
      h("span", null, "Snapshot"),
      h(
        "select",
        { id: "snapshot", value: String(state.chosen), onchange: (event) => choose(event.target.value) },
        h("option", { value: LATEST }, "The latest"),
        snapshots.map((each) => h("option", { key: each.id, value: String(each.id) }, named(each))),
        isGone && h("option", { key: state.chosen, value: state.chosen }, `${state.chosen}, deleted`),
      ),
    ),
    h("button", { type: "button", onclick: () => choose(state.chosen) }, "Read again"),
    h("span", { class: "note" }, isOld ? `${named(newest)} is newer.` : ""),
  );
}

function named({ id, kind, atMs, isStartingPoint }) {
  const name = `${kind} ${id}`;
  return isStartingPoint ? `${name}, where the job started` : `${name}, ${localTime(atMs)}`;
}

function contents(page, job, state, found) {
  const rows = (uid, name) => {
    const path = rowsPath(job, state, found.checkpoint_id, uid, name);
    return rowsOf(page, ask(page, state, ...path), { uid, state: name, shown: found.checkpoint_id });
  };
  const states = found.operators.flatMap((operator) =>
    operator.states.map((each) => ({ ...each, operator, id: `${operator.uid} ${each.name}` })),
  );
  return [
    figures([
      [found.kind.startsWith("savepoint") ? "Savepoint" : "Checkpoint", count(found.checkpoint_id)],
      ["Taken", age(found.created_ms, page.now)],
      ["Stored", bytes(found.total_bytes), "All files of it, with _metadata"],
      ["Inside _metadata", bytes(found.inline_bytes)],
      ["Operators", count(found.operators.length)],
      ["States", count(states.length)],
    ]),
    section("States", { note: "Open one to see its first rows." }, statesTable(page, states, rows)),
    section(
      "Operators",
      { note: "Open one to see rows of all its states and its timers." },
      operatorsTable(page, found.operators, rows),
    ),
  ];
}

function statesTable(page, states, rows) {
  return table(
    {
      id: "states",
      caption: "States of the snapshot",
      columns: STATE_COLUMNS,
      rows: states,
      rowKey: ({ id }) => id,
      rowName: ({ name, operator }) => `${name} of ${operator.name}`,
      searchText: ({ name, kind, type, operator }) =>
        `${name} ${kind} ${type} ${operator.name} ${operator.uid}`,
      detail: ({ name, operator }) => rows(operator.uid, name),
      empty: "No operator of this job keeps state of its own.",
    },
    page,
  );
}

const text = (value) => h("span", { class: "breaks" }, value);
const SHORT = 24;

function typeText(type) {
  return h("span", { class: type.length > SHORT ? "breaks" : null }, h("code", null, type));
}

const STATE_COLUMNS = [
  {
    id: "name",
    label: "State",
    wide: true,
    sort: ({ name }) => name,
    cell: ({ name }) => h("span", { class: "clipped" }, h("code", { title: name }, name)),
  },
  {
    id: "operator",
    label: "Operator",
    wide: true,
    sort: ({ operator }) => operator.name,
    cell: ({ operator }) => clipped(operator.name),
  },
  { id: "kind", label: "Kind", sort: ({ kind }) => kind, cell: ({ kind }) => kind },
  {
    id: "type",
    label: "Type",
    hint: "As declared in the program; a state without a type is pickled",
    sort: ({ type }) => type,
    cell: ({ type, codec }) =>
      type ? typeText(type) : h("span", { class: "none" }, codec === "pickle" ? "pickled" : codec),
  },
  { id: "ttl", label: "TTL", cell: ({ ttl }) => (ttl || "–") },
];

function operatorsTable(page, operators, rows) {
  return table(
    {
      id: "operators",
      caption: "Operators of the snapshot",
      columns: OPERATOR_COLUMNS,
      rows: operators,
      rowKey: ({ uid }) => uid,
      rowName: ({ name }) => name,
      searchText: ({ name, uid }) => `${name} ${uid}`,
      detail: ({ uid }) => rows(uid, null),
      empty: "The snapshot holds no operator.",
    },
    page,
  );
}

function numeric(id, label, value, show, hint) {
  return { id, label, hint, number: true, sort: value, cell: (row) => show(value(row)) };
}

const OPERATOR_COLUMNS = [
  {
    id: "name",
    label: "Operator",
    wide: true,
    sort: ({ name }) => name,
    cell: ({ name }) => clipped(name),
  },
  { id: "uid", label: "UID", sort: ({ uid }) => uid, cell: ({ uid }) => h("code", { class: "breaks" }, uid) },
  numeric("parallelism", "Parallelism", (row) => row.parallelism, count),
  numeric("max", "Max", (row) => row.max_parallelism, count, "Max parallelism: the number of key groups"),
  {
    id: "key",
    label: "Key",
    cell: ({ key_type: type }) => (type ? typeText(type) : "–"),
  },
  numeric("files", "Files", (row) => row.files, count),
  numeric("size", "In files", (row) => row.file_bytes, bytes),
  numeric("inline", "Inline", (row) => row.inline_bytes, bytes, "Inside _metadata"),
  { id: "also", label: "Also", cell: also },
];

function also({ has_source_position: position, has_pending_output: output }) {
  const found = [position && "source position", output && "pending output"].filter(Boolean);
  return found.length > 0 ? text(found.join(", ")) : "–";
}
