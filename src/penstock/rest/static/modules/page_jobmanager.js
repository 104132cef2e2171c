// The job manager itself: its settings and its log.

import { h } from "./dom.js";
import { logView } from "./log_view.js";
import { figures, missing, section, tabs } from "./parts.js";
import { link } from "./router.js";
import { settingRows } from "./settings.js";
import { productVersion } from "./shell.js";
import { settingsTable } from "./tab_configuration.js";

export function needs(route) {
  if (route.tab === "logs")
    return { resources: { logs: { path: "jobmanager/logs" } }, events: null };
  return {
    resources: {
      settings: { path: "jobmanager/config" },
      environment: { path: "jobmanager/environment", once: true },
    },
    events: null,
  };
}

export function view(page) {
  const { tab } = page.route;
  const entries = [
    ["Configuration", link("jobmanager"), tab === "configuration"],
    ["Logs", link("jobmanager", "logs"), tab === "logs"],
  ];
  return {
    title: "Job manager",
    content: [
      h("h1", null, "Job manager"),
      tabs("Parts of the job manager", entries),
      h("div", { class: "tab", key: tab }, tab === "logs" ? logs(page) : configuration(page)),
    ],
  };
}

function configuration(page) {
  const { settings, environment, config } = page.data;
  return [
    figures(
      [
        ["Version", productVersion(config) ?? "–"],
        ["Interpreter", environment?.jvm?.version ?? "–"],
        ["Machine", environment?.jvm?.arch ?? "–"],
        ["Process", environment?.pid ?? "–"],
        ["Time zone", config?.["timezone-name"] ?? "–"],
      ],
      { words: true },
    ),
    section(
      "Configuration",
      { note: "Secrets are not shown." },
      settings
        ? settingsTable("manager", "Configuration of the job manager", settingRows(settings), page)
        : missing(page, "settings", "configuration"),
    ),
  ];
}

function logs(page) {
  // The logs of jobs are shown with their jobs.
  const found = page.data.logs?.logs?.filter(({ name }) => !name.startsWith("job-"));
  if (!found) return missing(page, "logs", "list of logs");
  if (found.length === 0) {
    return h(
      "p",
      { class: "empty" },
      "The job manager writes no log file; look at the terminal it runs in.",
    );
  }
  const state = (page.local.logName ??= { name: found[0].name });
  const pick = (event) => {
    const { value } = event.target;
    page.update(() => (state.name = value));
  };
  return [
    found.length > 1 &&
      h(
        "label",
        { class: "filter" },
        h("span", null, "Log"),
        h(
          "select",
          { onchange: pick },
          found.map(({ name }) =>
            h("option", { value: name, selected: name === state.name }, name),
          ),
        ),
      ),
    logView(
      page,
      `jobmanager/logs/${encodeURIComponent(state.name)}`,
      "The job manager has not written anything yet.",
    ),
  ];
}
