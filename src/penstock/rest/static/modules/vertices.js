// Figures of vertices and subtasks, taken from the service's documents in one place.

import { isInstant, isNumber, median } from "./format.js";

const number = (...candidates) => candidates.find(isNumber) ?? null;

// The service's word for "event time has ended": the largest whole number that JSON readers agree on.
const END = Number.MAX_SAFE_INTEGER;

/** Figures of one vertex of a job's document. */
export function vertexFigures(vertex, now) {
  return figures(vertex.metrics ?? {}, vertex.figures ?? {}, now);
}

/** Figures of one subtask of a vertex's document. */
export function subtaskFigures(subtask, now) {
  return {
    index: subtask.subtask,
    status: subtask.status,
    attempt: subtask.attempt,
    worker: subtask.endpoint ?? subtask["taskmanager-id"] ?? "",
    ...figures(subtask.metrics ?? {}, subtask.figures ?? {}, now),
  };
}

function figures(metrics, lately, now) {
  // Sources read no watermark; theirs is the one that they send.
  const watermark = number(lately.watermark, lately["output-watermark"]);
  return {
    recordsIn: number(metrics["read-records"]),
    recordsOut: number(metrics["write-records"]),
    rateIn: number(lately["records-in-per-second"]),
    rateOut: number(lately["records-out-per-second"]),
    watermark,
    hasEnded: watermark !== null && watermark >= END,
    lag: isInstant(watermark) ? Math.max(now - watermark, 0) : null,
    stateBytes: number(lately["state-bytes"]),
    pending: number(lately["pending-records"]),
    lateDropped: number(lately["late-records-dropped"]),
    busy: number(lately["busy-share"]),
    backpressured: number(lately["back-pressured-share"]),
  };
}

/** Largest over median: 1 is even, 3 means that one subtask has thrice the usual. */
export function skew(values) {
  const known = values.filter(isNumber);
  if (known.length < 2) return null;
  const middle = median(known);
  const most = Math.max(...known);
  if (middle > 0) return most / middle;
  return most > 0 ? Infinity : null;
}
