// Small parts of pages.

import { h } from "./dom.js";

const SAID_MS = 1_600;

/** A strip of figures: `[label, value, hint]` each; `words` when the values are not numbers. */
export function figures(rows, { words = false } = {}) {
  return h(
    "dl",
    { class: words ? "figures words" : "figures" },
    rows
      .filter(Boolean)
      .map(([label, value, hint]) =>
        h("div", { key: label, title: hint ?? null }, h("dt", null, label), h("dd", null, value)),
      ),
  );
}

/** Labels and values below each other. */
export function facts(rows) {
  return h(
    "dl",
    { class: "facts" },
    rows
      .filter(Boolean)
      .map(([label, value]) =>
        h("div", { key: label }, h("dt", null, label), h("dd", { class: "breaks" }, value)),
      ),
  );
}

/** A part of a page under a heading. */
export function section(title, attributes, ...children) {
  const { note, tools, ...rest } = attributes ?? {};
  return h(
    "section",
    { class: "section", "aria-label": title, ...rest },
    h(
      "div",
      { class: "section-head" },
      h("h2", null, title),
      note && h("span", { class: "note" }, note),
      tools,
    ),
    children,
  );
}

/** What stands where there is nothing, and what to do about it. */
export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("strong", null, title), h("p", null, text));
}

/** Instead of a document that could not be had, or has not come yet. */
export function missing(page, name, what) {
  const error = page.errors[name];
  if (error) {
    return h(
      "div",
      { class: "empty failed", role: "alert" },
      h("strong", null, `The service could not show ${what}`),
      h("p", { class: "breaks" }, error.message),
    );
  }
  if (name in page.data)
    return empty(`There is no ${what} yet`, "It appears as soon as the job reports it.");
  return waiting(what);
}

export function waiting(what) {
  return h("p", { class: "waiting", "aria-busy": "true" }, `Waiting for ${what}…`);
}

/** Copies text; says so in its own label. */
export function copyButton(text, label = "Copy") {
  const onclick = async (event) => {
    const button = event.currentTarget;
    const said = (await copy(text)) ? "Copied" : "Select and copy by hand";
    button.dataset.said = said;
    button.setAttribute("aria-label", said);
    setTimeout(() => {
      delete button.dataset.said;
      button.removeAttribute("aria-label");
    }, SAID_MS);
  };
  return h(
    "button",
    { type: "button", class: "copy", onclick, title: text },
    h("span", null, label),
  );
}

// The clipboard of a browser is there for localhost and https only; elsewhere the old way works.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Tabs as links; `[name, href, isHere, count?]` each. */
export function tabs(label, entries, kind = "tabs") {
  return h(
    "nav",
    { class: kind, "aria-label": label },
    entries.map(([name, href, isHere, extra]) =>
      h(
        "a",
        { key: name, href, "aria-current": isHere ? "page" : null },
        name,
        extra ? h("span", { class: "tab-count" }, extra) : null,
      ),
    ),
  );
}

/** A name of any length on one line, whole on hover. */
export function clipped(text) {
  return h("span", { class: "clipped", title: text }, text);
}

/** A path that breaks behind its slashes, where it must. */
export function pathText(path) {
  const parts = path.split(/(?<=\/)(?=[^/])/);
  return h(
    "code",
    null,
    parts.map((part, index) => [index > 0 && h("wbr"), part]),
  );
}

/** A bar of a share, with the figure beside it. */
export function meter(value, text, kind = "") {
  const width = Math.min(Math.max(value ?? 0, 0), 1) * 100;
  return h(
    "span",
    { class: `meter ${kind}` },
    h(
      "svg",
      { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      h("rect", { class: "meter-all", width: 100, height: 6 }),
      h("rect", { class: "meter-part", width, height: 6 }),
    ),
    h("span", null, text),
  );
}
