// Configuration of checkpoints, with the place each value comes from.

import { h } from "./dom.js";
import { bytes, count, period } from "./format.js";
import { missing } from "./parts.js";

export function needs() {
  return {};
}

const yes = (value) => (value ? "enabled" : "disabled");
const words = (value) =>
  String(value ?? "–")
    .replaceAll("_", " ")
    .toLowerCase();
const text = (value) => String(value ?? "–");
const off = (ms) => (typeof ms !== "number" || ms <= 0 || ms > 1e15 ? "off" : period(ms));

const PREFIX = "execution.checkpointing.";

// Label, name in the service's document, key, and how the value is shown.
const ROWS = [
  ["Mode", "mode", `${PREFIX}mode`, words],
  ["Interval", "interval", `${PREFIX}interval`, off],
  ["Timeout", "timeout", `${PREFIX}timeout`, period],
  ["Minimum pause", "min_pause", `${PREFIX}min-pause`, period],
  ["Concurrent checkpoints", "max_concurrent", `${PREFIX}max-concurrent-checkpoints`, count],
  [
    "Tolerable failures",
    "tolerable_failed_checkpoints",
    `${PREFIX}tolerable-failed-checkpoints`,
    count,
  ],
  [
    "Kept when the job is cancelled",
    "externalization",
    `${PREFIX}externalized-checkpoint-retention`,
    kept,
  ],
  ["Checkpoints kept", "num_retained", `${PREFIX}num-retained`, count],
  ["State backend", "state_backend", "state.backend.type", text],
  ["Incremental", "incremental", `${PREFIX}incremental`, yes],
  ["Checkpoint storage", "checkpoint_storage", `${PREFIX}storage`, text],
  ["Checkpoint directory", "directory", `${PREFIX}dir`, text],
  ["Savepoint directory", "savepoint_directory", `${PREFIX}savepoint-dir`, text],
  ["Inline up to", "inline_threshold", `${PREFIX}data-inline-threshold`, bytes],
  ["Unaligned checkpoints", "unaligned_checkpoints", `${PREFIX}unaligned.enabled`, yes],
  ["Aligned timeout", "aligned_checkpoint_timeout", `${PREFIX}aligned-checkpoint-timeout`, off],
  [
    "After tasks have finished",
    "checkpoints_after_tasks_finish",
    `${PREFIX}checkpoints-after-tasks-finish`,
    yes,
  ],
  ["State changelog", "state_changelog_enabled", "state.changelog.enabled", yes],
];

function kept(externalization) {
  if (!externalization?.enabled) return "no";
  return externalization.delete_on_cancellation ? "no: deleted on cancellation" : "yes: retained";
}

export function view(page) {
  const config = page.data.checkpointConfig;
  if (!config) return missing(page, "checkpointConfig", "configuration of checkpoints");
  const rows = ROWS.filter(([, name]) => name in config);
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { role: "table", class: "stacks settings" },
      h("caption", { class: "unseen" }, "Configuration of checkpoints"),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          ["Setting", "Value", "Source", "Key"].map((name) =>
            h("th", { role: "columnheader", scope: "col" }, name),
          ),
        ),
      ),
      h(
        "tbody",
        { role: "rowgroup" },
        rows.map(([label, name, key, show]) =>
          h(
            "tr",
            { role: "row", key },
            h("th", { role: "rowheader", scope: "row", class: "wide" }, label),
            h("td", { role: "cell", "data-label": "Value", class: "breaks" }, show(config[name])),
            h(
              "td",
              { role: "cell", "data-label": "Source", class: "note" },
              config.sources?.[name] ?? "default",
            ),
            h("td", { role: "cell", "data-label": "Key" }, h("code", null, key)),
          ),
        ),
      ),
    ),
  );
}
