// The address after `#`: which page, and what on it. Unknown ones lead to the overview.

const JOB_TABS = new Set([
  "graph",
  "checkpoints",
  "state",
  "exceptions",
  "configuration",
  "logs",
]);
const CHECKPOINT_TABS = new Set(["overview", "history", "summary", "configuration", "timeline"]);

/**
 * Reads an address.
 *
 *     #/                              overview
 *     #/jobs/<id>/graph/<vertex>      a vertex of a job
 *     #/jobs/<id>/checkpoints/history/<n>
 *     #/jobmanager/logs
 */
export function parse(hash) {
  const parts = hash
    .replace(/^#?\/?/, "")
    .split("/")
    .filter(Boolean)
    .map(decode);
  if (parts[0] === "jobs" && parts[1]) {
    const tab = JOB_TABS.has(parts[2]) ? parts[2] : "graph";
    if (tab === "checkpoints") {
      const view = CHECKPOINT_TABS.has(parts[3]) ? parts[3] : "overview";
      return { page: "job", job: parts[1], tab, view, item: parts[4] ?? null };
    }
    return { page: "job", job: parts[1], tab, view: null, item: parts[3] ?? null };
  }
  if (parts[0] === "jobmanager") {
    return { page: "jobmanager", tab: parts[1] === "logs" ? "logs" : "configuration" };
  }
  return { page: "overview" };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Makes an address of its parts. */
export function link(...parts) {
  return `#/${parts
    .filter((part) => part !== null)
    .map(encodeURIComponent)
    .join("/")}`;
}
