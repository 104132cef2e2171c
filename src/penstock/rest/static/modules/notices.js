// Notes about what was asked of the service: under way, done, failed. They outlive the page.

import { h } from "./dom.js";
import { copyButton } from "./parts.js";

const KEPT = 5;
let notices = [];
let changed = () => {};
let next = 1;

/** Says who draws them. */
export function onNotices(callback) {
  changed = callback;
}

/** Adds a note; the returned function replaces it. Kinds: `busy`, `done`, `failed`. */
export function notice(first) {
  const id = next;
  next += 1;
  const put = (note) => {
    const others = notices.filter((each) => each.id !== id);
    notices = [...others, { id, ...note }].slice(-KEPT);
    changed();
  };
  put(first);
  return put;
}

function close(id) {
  notices = notices.filter((each) => each.id !== id);
  changed();
}

/** Draws the notes; one that failed stays until somebody closes it, as all do. */
export function drawNotices() {
  return notices.map(({ id, kind, title, text, command }) =>
    h(
      "div",
      { key: id, class: `notice ${kind}` },
      h(
        "div",
        { class: "notice-text" },
        h("strong", null, title),
        text && h("span", { class: "breaks" }, text),
        command && h("span", { class: "command" }, h("code", null, command), copyButton(command)),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Close: ${title}`,
          onclick: () => close(id),
        },
        "×",
      ),
    ),
  );
}
