// Configuration: what counts for this job, and where each value was set.

import { h } from "./dom.js";
import { count } from "./format.js";
import { figures, missing, section } from "./parts.js";
import { settingRows } from "./settings.js";
import { table } from "./table.js";

export function needs(base) {
  return {
    effective: { path: `${base}/effective-config`, document: "effective-config" },
    execution: { path: `${base}/config`, document: "config" },
  };
}

export function view(page) {
  const { effective, execution } = page.data;
  return [
    execution?.["execution-config"] ? executionFigures(execution["execution-config"]) : null,
    settings(page, effective),
  ];
}

function executionFigures(config) {
  return figures(
    [
      ["Restart strategy", String(config["restart-strategy"] ?? "–")],
      ["Parallelism", count(config["job-parallelism"])],
      ["Exchanges", String(config["execution-mode"] ?? "–").toLowerCase()],
    ],
    { words: true },
  );
}

function settings(page, effective) {
  if (!effective) return missing(page, "effective", "configuration");
  const rows = settingRows(effective);
  const isDefault = (row) => row["is-default"] ?? row.source === "default";
  const made = rows.filter((row) => !isDefault(row));
  const state = (page.local.settingsShown ??= { all: made.length === 0 });
  const onchange = (event) => {
    const { checked } = event.target;
    page.update(() => (state.all = checked));
  };
  const tools = h(
    "label",
    { class: "pick inline" },
    h("input", { type: "checkbox", checked: state.all, onchange }),
    h("span", null, `Show defaults too (${count(rows.length - made.length)})`),
  );
  return section(
    "Effective configuration",
    { note: "Secrets are not shown.", tools },
    settingsTable("settings", "Effective configuration", state.all ? rows : made, page),
  );
}

/** Keys, values and sources. */
export function settingsTable(id, caption, rows, page) {
  const hasSources = rows.some((row) => row.source !== undefined);
  const columns = [
    {
      id: "key",
      label: "Key",
      wide: true,
      sort: (row) => row.key,
      cell: (row) => h("code", { class: "breaks" }, row.key),
    },
    {
      id: "value",
      label: "Value",
      cell: (row) => h("span", { class: "breaks" }, String(row.value ?? "")),
    },
    hasSources && {
      id: "source",
      label: "Source",
      sort: (row) => row.source,
      cell: (row) => h("span", { class: "note breaks" }, row.source ?? "default"),
    },
  ].filter(Boolean);
  return table(
    {
      id,
      caption,
      columns,
      rows,
      rowKey: (row) => row.key,
      searchText: (row) => `${row.key} ${row.value} ${row.source}`,
      empty: "Nothing was set: every value is the default.",
    },
    page,
  );
}
