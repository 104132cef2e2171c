// Summary: how long checkpoints take and what they weigh, as percentiles over all completed ones.

import { h } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { noCheckpoints } from "./tab_checkpoints.js";

const ROWS = [
  ["End to end duration", "end_to_end_duration", duration],
  ["New data", "checkpointed_size", bytes],
  ["Full size", "state_size", bytes],
];
const COLUMNS = [
  ["Least", "min"],
  ["Average", "avg"],
  ["p50", "p50"],
  ["p90", "p90"],
  ["p95", "p95"],
  ["p99", "p99"],
  ["p99.9", "p999"],
  ["Largest", "max"],
];

export function needs() {
  return {};
}

export function view(page, job, { counts = {}, summary }) {
  if (!counts.completed || !summary) return noCheckpoints(page);
  return [
    h(
      "p",
      { class: "note" },
      `Over ${count(counts.completed)} completed checkpoints and savepoints; percentiles over the latest 10,000.`,
    ),
    h(
      "div",
      {
        class: "table-scroll",
        tabindex: "0",
        role: "group",
        "aria-label": "Summary of checkpoints",
      },
      h(
        "table",
        { role: "table", class: "stacks" },
        h("caption", { class: "unseen" }, "Summary of completed checkpoints"),
        h(
          "thead",
          { role: "rowgroup" },
          h(
            "tr",
            { role: "row" },
            h("th", { role: "columnheader", scope: "col" }, "Figure"),
            COLUMNS.map(([label]) =>
              h("th", { role: "columnheader", scope: "col", class: "number" }, label),
            ),
          ),
        ),
        h(
          "tbody",
          { role: "rowgroup" },
          ROWS.map(([name, key, show]) =>
            h(
              "tr",
              { role: "row" },
              h("th", { role: "rowheader", scope: "row", class: "wide" }, name),
              COLUMNS.map(([label, column]) =>
                h(
                  "td",
                  { role: "cell", class: "number", "data-label": label },
                  show(rounded(summary[key]?.[column])),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  ];
}

// The service has sent "NaN" as text for an empty series in some versions.
function rounded(value) {
  return typeof value === "number" ? Math.round(value) : null;
}
