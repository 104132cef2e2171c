// Documents that are asked for once, because what they tell does not change any more.

import { getJson } from "./api.js";

const MOST = 400;

/**
 * Returns a document: undefined while it is on its way, null when there is none.
 *
 * @param name names it together with the state it was asked for in; another name is asked for anew.
 */
export function kept(page, name, path) {
  const known = (page.local.kept ??= new Map());
  if (!known.has(name)) {
    known.set(name, undefined);
    if (known.size > MOST) known.delete(known.keys().next().value);
    getJson(path)
      .catch(() => null)
      .then((found) => page.update(() => known.has(name) && known.set(name, found ?? null)));
  }
  return known.get(name);
}

/** Details of one checkpoint, with its stages. */
export function checkpointDetails(page, job, record) {
  const path = `jobs/${encodeURIComponent(job.jid)}/checkpoints/details/${record.id}`;
  return kept(page, stateOf(record), path);
}

/** Figures of the subtasks of one stage in one checkpoint. */
export function checkpointSubtasks(page, job, record, vertex) {
  const base = `jobs/${encodeURIComponent(job.jid)}/checkpoints/details/${record.id}`;
  const path = `${base}/subtasks/${encodeURIComponent(vertex)}`;
  return kept(page, `${stateOf(record)} ${vertex}`, path);
}

const stateOf = ({ id, status, num_acknowledged_subtasks: done }) => `${id} ${status} ${done}`;
