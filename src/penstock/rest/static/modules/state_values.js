// Values of state as text, from the JSON in which the service gives them.
//
// What JSON has no form for comes as an object with one key that starts with `$`.

import { bytes, count } from "./format.js";

const FORMS = {
  $pickle: (size) => `pickled, ${bytes(size)}`,
  $bytes: (hex) => `0x${hex}`,
  $tuple: (parts) => `(${parts.map(quoted).join(", ")})`,
  $row: (parts) => `Row(${parts.map(quoted).join(", ")})`,
  $map: (pairs) => `{${pairs.map(([key, value]) => `${quoted(key)}: ${quoted(value)}`).join(", ")}}`,
  $repr: String,
  $cut: (text) => `${text}…`,
};

/** A value as a cell shows it: a text of its own stands without quotes, unless it is empty. */
export function valueText(value) {
  return typeof value === "string" && value.trim() !== "" ? value : quoted(value);
}

function quoted(value) {
  const form = formOf(value);
  if (form) return form(value);
  if (Array.isArray(value)) return `[${value.map(quoted).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    const pairs = Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}: ${quoted(part)}`);
    return `{${pairs.join(", ")}}`;
  }
  return JSON.stringify(value);
}

function formOf(value) {
  const name = value !== null && typeof value === "object" && Object.keys(value)[0];
  if (!name || !Object.hasOwn(FORMS, name)) return null;
  return (given) => FORMS[name](given[name]);
}

/** Whether a value, or a part of it, is a pickle that was not read. */
export function isPickled(value) {
  return value !== undefined && JSON.stringify(value).includes('{"$pickle":');
}

/** What is left out of a value that was cut, or null. */
export function cutNote(value) {
  if (value === null || typeof value !== "object" || !("$cut" in value)) return null;
  return `${count(value.length)} characters in all`;
}
