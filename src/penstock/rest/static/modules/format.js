// Figures and times as people read them. Every number has its unit; missing ones are a dash.

import { h } from "./dom.js";

export const NONE = "–";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** 1234567 -> "1,234,567". */
export function count(value) {
  return isNumber(value) ? whole.format(value) : NONE;
}

/** 1234567 -> "1.23M": three digits, for narrow places. */
export function compact(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 999_500) {
    return size >= 999_500_000 ? `${digits(value / 1e9)}G` : `${digits(value / 1e6)}M`;
  }
  return size >= 999.5 ? `${digits(value / 1e3)}k` : digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size === 0 || Number.isInteger(value)) return String(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A large number in three digits, whole on hover. */
export function total(value) {
  if (!isNumber(value) || Math.abs(value) < 10_000_000) return count(value);
  return h("span", { title: count(value) }, compact(value));
}

/** Records a second. */
export function rate(value) {
  return isNumber(value) ? `${compact(value)}/s` : NONE;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1536 -> "1.50 KiB". */
export function bytes(value) {
  if (!isNumber(value) || value < 0) return NONE;
  let size = value;
  let unit = 0;
  while (size >= 1023.5 && unit < SIZES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : digits(size)} ${SIZES[unit]}`;
}

/** 75_000 -> "1 min 15 s"; two units at most. */
export function duration(ms) {
  if (!isNumber(ms) || ms < 0) return NONE;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 10) / 100).toFixed(2)} s`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${pad(seconds % 60)} s`;
  if (seconds < 86_400) {
    return `${Math.floor(seconds / 3_600)} h ${pad(Math.floor((seconds % 3_600) / 60))} min`;
  }
  if (seconds >= 8_640_000) return `${count(Math.floor(seconds / 86_400))} d`;
  return `${Math.floor(seconds / 86_400)} d ${pad(Math.floor((seconds % 86_400) / 3_600))} h`;
}

/** A time that runs, in whole seconds: it is drawn every second. */
export function elapsed(ms) {
  return isNumber(ms) && ms >= 0 && ms < 10_000 ? `${Math.floor(ms / 1_000)} s` : duration(ms);
}

/** A time that somebody chose: 60_000 -> "1 min". */
export function period(ms) {
  return duration(ms)
    .replace(/\.00 s$/, " s")
    .replace(/ 00 (s|min|h)$/, "");
}

/** 0.256 -> "26%". */
export function share(value) {
  return isNumber(value) ? `${Math.round(value * 100)}%` : NONE;
}

const pad = (value, width = 2) => String(value).padStart(width, "0");

/** Local time; the day only when it is not today's. */
export function localTime(ms, now = Date.now()) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const today = new Date(now);
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return at.toDateString() === today.toDateString() ? clock : `${day} ${clock}`;
}

/** The same instant for the hover text. */
export function utcTime(ms) {
  return `${new Date(ms).toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

const MAX_DATE = 8.64e15;

/** Whether a number is an instant that a clock can show: Flink's -1 and minimum watermark are not. */
export function isInstant(ms) {
  return isNumber(ms) && ms > 0 && ms < MAX_DATE;
}

/** A time, local, with UTC on hover. */
export function time(ms) {
  if (!isInstant(ms)) return h("span", { class: "none" }, NONE);
  return h("time", { datetime: new Date(ms).toISOString(), title: utcTime(ms) }, localTime(ms));
}

/** "12 s ago", with the instant on hover. */
export function age(ms, now) {
  if (!isInstant(ms)) return h("span", { class: "none" }, NONE);
  const since = Math.max(now - ms, 0);
  const text = since < 1_000 ? "just now" : `${elapsed(since)} ago`;
  const title = `${localTime(ms)} local, ${utcTime(ms)}`;
  return h("time", { datetime: new Date(ms).toISOString(), title }, text);
}

/** A word for a command line: quoted when a shell would take it apart. */
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Median of numbers; null when there are none. */
export function median(values) {
  if (values.length === 0) return null;
  const ordered = [...values].sort((a, b) => a - b);
  const middle = ordered.length >> 1;
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

/** "1 task", "2 tasks". */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
