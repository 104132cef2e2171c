// What the timeline shows, as numbers: spans, gaps, phases, stragglers. Pure.

import { isNumber, median } from "./format.js";

/** Checkpoints in the order of their triggers, as spans of time. */
export function spans(history, now) {
  return history
    .map((record) => {
      const start = record.trigger_timestamp;
      const isRunning = record.status === "IN_PROGRESS";
      const took = isRunning ? Math.max(now - start, 0) : Math.max(record.end_to_end_duration, 0);
      return { record, start, end: start + took };
    })
    .filter(({ start, end }) => isNumber(start) && isNumber(end))
    .sort((a, b) => a.start - b.start || a.record.id - b.record.id);
}

/** Times between checkpoints in which none was under way, and the share in which one was. */
export function gaps(ordered) {
  const found = [];
  let until = ordered.length > 0 ? ordered[0].start : 0;
  let busy = 0;
  for (const { start, end } of ordered) {
    if (start > until) found.push({ start: until, end: start });
    busy += Math.max(end - Math.max(start, until), 0);
    until = Math.max(until, end);
  }
  const all = ordered.length > 0 ? until - ordered[0].start : 0;
  return { gaps: found, busyShare: all > 0 ? busy / all : null };
}

/** Percentile of values, by position with interpolation, as the service reckons it. */
export function percentile(values, percent) {
  if (values.length === 0) return null;
  const ordered = [...values].sort((a, b) => a - b);
  const position = (percent * (ordered.length + 1)) / 100;
  const below = Math.floor(position);
  if (below < 1) return ordered[0];
  if (below >= ordered.length) return ordered[ordered.length - 1];
  return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1]);
}

/** From which duration on a subtask is a straggler; null when none can be told. */
export function stragglerLimit(durations) {
  if (durations.length < 3) return null;
  return Math.max(percentile(durations, 95), 1.5 * median(durations));
}

/** The phases of one subtask in their order, in milliseconds since the trigger. */
export function phases(subtask) {
  const parts = [
    ["start delay", subtask.start_delay],
    ["alignment", subtask.alignment?.duration],
    ["sync", subtask.checkpoint?.sync],
    ["async", subtask.checkpoint?.async],
  ];
  let at = 0;
  const known = [];
  for (const [name, ms] of parts) {
    const took = isNumber(ms) && ms > 0 ? ms : 0;
    known.push({ name, start: at, ms: took });
    at += took;
  }
  const total = Math.max(subtask.end_to_end_duration ?? 0, at);
  return { parts: known, rest: total - at, total };
}

/** A round step for a scale of `length` ms with about `wanted` marks. */
export function scaleStep(length, wanted) {
  const least = Math.max(length / wanted, 1);
  const steps = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5,
    18e5, 36e5, 72e5, 216e5, 432e5, 864e5,
  ];
  return steps.find((step) => step >= least) ?? Math.ceil(least / 864e5) * 864e5;
}
