// Dialogs: the browser's own, so that focus stays inside and Escape closes them.

import { h, patch } from "./dom.js";

/**
 * Opens a dialog; closing it forgets it.
 *
 * @param options `title`, `text`, `fields`, `action` (label of the button that does it), `isDanger`,
 *     `dismiss`, and `onSubmit(values)`.
 */
export function dialog(options) {
  const element = document.createElement("dialog");
  element.setAttribute("aria-labelledby", "dialog-title");
  const close = () => element.close();
  const onsubmit = (event) => {
    event.preventDefault();
    const values = valuesOf(event.target);
    close();
    options.onSubmit(values);
  };
  patch(
    element,
    h(
      "form",
      { method: "dialog", onsubmit },
      h("h2", { id: "dialog-title" }, options.title),
      options.text,
      options.fields,
      h(
        "div",
        { class: "dialog-buttons" },
        h(
          "button",
          { type: "button", onclick: close, autofocus: options.isDanger },
          options.dismiss ?? "Not now",
        ),
        h(
          "button",
          { type: "submit", class: options.isDanger ? "danger-filled" : "primary" },
          options.action,
        ),
      ),
    ),
  );
  element.onclose = () => element.remove();
  // A click beside the dialog; a handler that returned false would undo all other clicks in it.
  element.onclick = (event) => {
    if (event.target === element) close();
  };
  document.body.append(element);
  element.showModal();
}

function valuesOf(form) {
  const values = {};
  for (const input of form.elements) {
    if (!input.name) continue;
    if (input.type === "checkbox") values[input.name] = input.checked;
    else if (input.type !== "radio" || input.checked) values[input.name] = input.value.trim();
  }
  return values;
}

/** A line of text. */
export function field(name, label, { hint, placeholder }) {
  return h(
    "label",
    { class: "field" },
    h("span", { class: "field-label" }, label),
    h("input", { name, type: "text", placeholder, spellcheck: "false", autocomplete: "off" }),
    h("span", { class: "hint" }, hint),
  );
}

/** One of several; the first is chosen. `[value, label, hint]` each. */
export function choice(name, label, entries) {
  return h(
    "fieldset",
    { class: "field" },
    h("legend", { class: "field-label" }, label),
    entries.map(([value, text, hint], index) =>
      h(
        "label",
        { class: "pick" },
        h("input", { type: "radio", name, value, checked: index === 0 }),
        h("span", null, h("strong", null, text), h("span", { class: "hint" }, hint)),
      ),
    ),
  );
}

/** Yes or no. */
export function tick(name, label, hint) {
  return h(
    "label",
    { class: "pick field" },
    h("input", { type: "checkbox", name }),
    h("span", null, h("strong", null, label), h("span", { class: "hint" }, hint)),
  );
}
