// Which snapshots of a job can be read: completed, and not deleted by the job since.

import { completedAt } from "./checkpoint_times.js";

const MOST = 200;

/** Snapshots that are still there, newest first. */
export function retained({ history = [], latest = {} }) {
  const found = new Map();
  // A savepoint outlives its line of the history, also one that the job started from.
  for (const line of history) if (line.status === "COMPLETED") note(found, line, completedAt(line));
  for (const line of [latest.completed, latest.savepoint]) {
    if (line) note(found, line, completedAt(line));
  }
  if (latest.restored?.is_savepoint) note(found, latest.restored, null);
  return [...found.values()].filter(({ isThere }) => isThere).slice(0, MOST);
}

function note(found, line, atMs) {
  if (found.has(line.id) || !line.external_path) return;
  found.set(line.id, {
    id: line.id,
    kind: line.is_savepoint ? "savepoint" : "checkpoint",
    path: line.external_path,
    isThere: !line.discarded,
    isStartingPoint: atMs === null,
    atMs,
  });
}

/** Whether a snapshot is in the memory of the job's process, where only the job can read it. */
export const isInMemory = ({ path }) => path.startsWith("memory:");
