// The first rows of a state, and the command that reads all of them.

import { h } from "./dom.js";
import { bytes, count, isInstant, plural, shellWord, utcTime } from "./format.js";
import { copyButton } from "./parts.js";
import { cutNote, isPickled, valueText } from "./state_values.js";
import { table } from "./table.js";

const COLUMNS = [
  ["state", "State"],
  ["kind", "Kind"],
  ["subtask", "Subtask"],
  ["key", "Key"],
  ["namespace", "Window"],
  ["map_key", "Map key"],
  ["value", "Value"],
];
const RECENT_MS = 1e11;

/**
 * Rows below the line of a state or an operator.
 *
 * @param answer what the service said, or undefined while it is asked.
 * @param uid the operator.
 * @param state the name of one state; null for all of them.
 * @param shown number of the snapshot that the page lists.
 */
export function rowsOf(page, { found, error, retry }, { uid, state, shown }) {
  if (error) return failed(error, retry);
  if (!found) {
    return h("p", { class: "waiting", "aria-busy": "true" }, "Reading the first rows…");
  }
  const { rows, unread_bytes: unread } = found;
  return h(
    "div",
    { class: "detail-body" },
    found.checkpoint_id === shown
      ? null
      : h(
          "p",
          { class: "note" },
          `From snapshot ${count(found.checkpoint_id)}: ${count(shown)} has been deleted since.`,
        ),
    rows.length > 0 ? h("div", { class: "state-rows" }, rowsTable(page, found)) : h("p", { class: "none" }, nothing(unread, state)),
    rows.some(anyPickle) ? pickleNote() : null,
    command(found, uid, state),
  );
}

function failed(error, retry) {
  return h(
    "div",
    { class: "detail-body" },
    h("p", { class: "failure breaks", role: "alert" }, error),
    h("p", null, h("button", { type: "button", onclick: retry }, "Try again")),
  );
}

function nothing(unread, state) {
  if (unread > 0) {
    return `${bytes(unread)} would have to be read, which is too much for a page. The command below reads them.`;
  }
  return state === null
    ? "This operator had no entries and no timers when the snapshot was taken."
    : "This state had no entries when the snapshot was taken.";
}

const anyPickle = ({ key, map_key: mapKey, value }) => [key, mapKey, value].some(isPickled);

function pickleNote() {
  return h(
    "p",
    { class: "note" },
    "Pickled objects are not loaded here, because that runs code that the snapshot holds. ",
    h("code", null, "--unpickle"),
    " loads them in a terminal; built-in values and state with a declared type are shown at once.",
  );
}

function rowsTable(page, { rows, uid, state }) {
  const isMixed = state === null;
  const named = COLUMNS.filter(
    ([id]) =>
      rows.some((row) => (row[id] ?? null) !== null) &&
      (isMixed || (id !== "state" && id !== "kind")),
  );
  return table(
    {
      id: `rows ${uid} ${state}`,
      caption: `First rows of ${state ?? uid}`,
      dense: true,
      columns: named.map(([id, label]) => ({
        id,
        label,
        number: rows.every((row) => typeof row[id] === "number"),
        cell: (row) => cell(id, row),
      })),
      rows: rows.map((row, number) => ({ ...row, number })),
      rowKey: ({ number }) => number,
      empty: "No rows.",
    },
    page,
  );
}

function cell(id, row) {
  const value = row[id];
  if (value === undefined || (value === null && id === "namespace")) return "–";
  if (id === "kind") return value.replaceAll(/[_-]/g, " ");
  if (id === "state") return value === "" ? h("span", { class: "none" }, "timer") : h("code", null, value);
  if (id === "value" && row.kind.endsWith("_timer") && isInstant(value) && value > RECENT_MS) {
    return h("code", null, String(value), h("span", { class: "note" }, ` (${utcTime(value)})`));
  }
  const text = typeof value === "number" ? String(value) : valueText(value);
  const note = cutNote(value);
  return h(
    "code",
    { class: isPickled(value) ? "breaks none" : "breaks" },
    text,
    note && h("span", { class: "note" }, ` (${note})`),
  );
}

function command(found, uid, state) {
  const words = ["penstock state get", shellWord(found.path), shellWord(uid)];
  if (state !== null) words.push(shellWord(state));
  const text = `${words.join(" ")} --limit 0`;
  const { rows, is_truncated: isCut } = found;
  const more = isCut && rows.length > 0;
  return h(
    "div",
    null,
    h(
      "p",
      { class: "note" },
      more ? `The first ${plural(rows.length, "row")}; ` : rows.length > 0 ? `${plural(rows.length, "row")}, which is all. ` : "",
      more ? "all of them, in a terminal:" : "In a terminal:",
    ),
    h("p", { class: "command" }, h("code", null, text), copyButton(text)),
  );
}
