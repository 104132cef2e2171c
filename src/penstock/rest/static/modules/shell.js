// What surrounds every page: the bar on top, and the one that says that the service is away.

import { h } from "./dom.js";
import { localTime, time } from "./format.js";
import { link } from "./router.js";

/** Brand, main pages, and whether the data is fresh. */
export function topBar(page) {
  const { route, data } = page;
  const isManager = route.page === "jobmanager";
  return [
    h(
      "a",
      { class: "brand", href: "#/", "aria-label": "Penstock, overview" },
      h(
        "svg",
        { viewBox: "0 0 32 32", width: 22, height: 22, "aria-hidden": "true" },
        h("rect", { class: "brand-back", width: 32, height: 32, rx: 7 }),
        h("path", { class: "brand-pipe", d: "M7 9h9a7 7 0 0 1 7 7v7" }),
        h("circle", { class: "brand-drop", cx: 11, cy: 22, r: 3.2 }),
      ),
      h("span", null, "Penstock"),
    ),
    h(
      "nav",
      { class: "main-pages", "aria-label": "Main pages" },
      entry("Jobs", "#/", !isManager),
      entry("Job manager", link("jobmanager"), isManager),
    ),
    h("span", { class: "version", title: "Version of the service" }, version(data.config)),
    liveness(page),
  ];
}

function version(config) {
  return productVersion(config) ?? "";
}

/** Our version, from where Flink shows its own. */
export function productVersion(config) {
  return config?.["flink-version"]?.replace(/^penstock-/, "");
}

function entry(name, href, isHere) {
  return h("a", { href, "aria-current": isHere ? "page" : null }, name);
}

function liveness({ connection }) {
  const { state, lastMs } = connection;
  const words = { connecting: "Connecting", live: "Live", away: "Away" }[state];
  return h(
    "span",
    { class: `liveness ${state}`, title: lastMs ? `Last answer ${localTime(lastMs)}` : null },
    h("span", { class: "pulse", "aria-hidden": "true" }),
    words,
  );
}

/** Shown while the service does not answer. */
export function connectionBar({ connection }, retry) {
  if (connection.state !== "away") return null;
  const { lastMs, leader } = connection;
  return h(
    "div",
    { class: "away-bar" },
    h("strong", null, "Reconnecting…"),
    h(
      "span",
      null,
      lastMs === null
        ? "The service does not answer. Is the job manager running? Start it with: penstock jobmanager"
        : ["The service does not answer; this is what was known at ", time(lastMs), "."],
    ),
    isWebAddress(leader) &&
      h("a", { href: samePageOf(leader) }, "Open this page of the leading job manager"),
    h("button", { type: "button", onclick: retry }, "Try now"),
  );
}

function samePageOf(address) {
  return `${address.replace(/\/+$/, "")}/${location.hash}`;
}

function isWebAddress(text) {
  return typeof text === "string" && /^https?:\/\//i.test(text);
}
