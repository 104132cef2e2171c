// The end of a log, followed as it grows.

import { AwayError, getText } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { notice } from "./notices.js";
import { empty } from "./parts.js";

const FOLLOW_MS = 2_000;
const SHOWN_LINES = 2_000;
const DOWNLOAD_BYTES = 16 * 1024 * 1024;

const LEVEL = /\b(ERROR|CRITICAL|FATAL|WARNING|WARN)\b/;

/**
 * Shows a log.
 *
 * @param page local state is kept in `page.local.log`.
 * @param path where its text is.
 * @param nothing what to say when it is empty or there is none.
 */
export function logView(page, path, nothing) {
  const state = (page.local.log ??= {});
  if (state.path !== path)
    Object.assign(state, { path, text: undefined, error: null, follow: true, seek: "" });
  keepFresh(state, page);
  if (state.error) {
    return empty("The log could not be shown", state.error);
  }
  if (state.text === undefined)
    return h("p", { class: "waiting", "aria-busy": "true" }, "Waiting for the log…");
  if (state.text.trim() === "") return empty("The log is empty", nothing);
  return [tools(state, page), lines(state)];
}

function keepFresh(state, page) {
  if (state.isAsking || document.hidden) return;
  const isDue =
    state.text === undefined || (state.follow && Date.now() - state.askedMs >= FOLLOW_MS);
  if (!isDue) return;
  state.isAsking = true;
  state.askedMs = Date.now();
  const { path } = state;
  getText(path)
    .then((text) => ({ text, error: null }))
    .catch((error) => (error instanceof AwayError ? {} : { error: error.message, text: "" }))
    .then((found) => {
      state.isAsking = false;
      if (state.path === path) page.update(() => Object.assign(state, found));
    });
}

function tools(state, page) {
  const set = (name, value) => page.update(() => (state[name] = value));
  return h(
    "div",
    { class: "log-tools" },
    h(
      "label",
      { class: "filter" },
      h("span", null, "Find"),
      h("input", {
        type: "search",
        "aria-label": "Show lines that contain",
        placeholder: "lines that contain…",
        value: state.seek,
        oninput: (event) => set("seek", event.target.value),
      }),
    ),
    h(
      "label",
      { class: "pick inline" },
      h("input", {
        type: "checkbox",
        checked: state.follow,
        onchange: (event) => set("follow", event.target.checked),
      }),
      h("span", null, "Follow"),
    ),
    h("button", { type: "button", onclick: () => download(state.path) }, "Download"),
  );
}

// Fetched rather than linked to, so that a token can travel with the request.
async function download(path) {
  const name = path.endsWith("/log") ? `${path.split("/").at(-2)}.log` : path.split("/").at(-1);
  try {
    const text = await getText(`${path}?bytes=${DOWNLOAD_BYTES}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = decodeURIComponent(name);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), FOLLOW_MS);
  } catch (error) {
    notice({ kind: "failed", title: "The log was not downloaded", text: error.message });
  }
}

function lines(state) {
  const all = state.text.replace(/\n$/, "").split("\n");
  const sought = state.seek.toLowerCase();
  const hits = sought ? all.filter((line) => line.toLowerCase().includes(sought)) : all;
  const shown = hits.slice(-SHOWN_LINES);
  if (state.follow && state.drawn !== state.text) requestAnimationFrame(scrollDown);
  state.drawn = state.text;
  return [
    h(
      "p",
      { class: "note" },
      hits.length > shown.length
        ? `The last ${plural(shown.length, "line")} of ${plural(hits.length, "line")}`
        : plural(shown.length, "line"),
    ),
    h(
      "pre",
      { class: "log", id: "log", tabindex: "0", "aria-label": "Log" },
      shown.length === 0
        ? "No line contains that."
        : shown.map((line) => h("span", { class: levelOf(line) }, `${line}\n`)),
    ),
  ];
}

function levelOf(line) {
  const [level] = LEVEL.exec(line) ?? [];
  if (!level) return null;
  return level.startsWith("WARN") ? "log-warning" : "log-error";
}

function scrollDown() {
  const log = document.getElementById("log");
  if (log) log.scrollTop = log.scrollHeight;
}
