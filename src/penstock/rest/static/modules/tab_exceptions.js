// Exceptions: what failed, the frames of the program first, and what the job did about it.

import { h } from "./dom.js";
import { count, time } from "./format.js";
import { copyButton, empty, facts, figures, missing, section } from "./parts.js";

export function needs() {
  return {};
}

export function view(page, job) {
  const found = page.data.exceptions;
  if (!found) return missing(page, "exceptions", "list of exceptions");
  const entries = found.exceptionHistory?.entries ?? [];
  if (entries.length === 0) {
    return empty(
      "No failure so far",
      "When a task or the program fails, its cause is shown here, with your own code first.",
    );
  }
  const [latest, ...earlier] = entries;
  return [
    byCause(job),
    section("Latest failure", { note: message(latest) }, entryFacts(latest), trace(latest)),
    earlier.length > 0 &&
      section(
        "Earlier failures",
        { note: found.exceptionHistory.truncated ? "Older ones have been forgotten." : null },
        earlier.map((entry) => folded(entry)),
      ),
  ];
}

/** How many failures had which cause, the most frequent first. */
function byCause(job) {
  const causes = Object.entries(job?.["failures-by-cause"] ?? {});
  if (causes.length === 0) return null;
  causes.sort(([, left], [, right]) => right - left);
  return section(
    "Failures by cause",
    { note: "Since the driver of the job started." },
    figures(causes.map(([cause, number]) => [cause, count(number)])),
  );
}

function message({ exceptionName }) {
  return String(exceptionName ?? "")
    .split(".")
    .pop();
}

/** The line that says what went wrong, such as "KeyError: 'GBX'"; lines of code are indented. */
export function headline({ stacktrace, exceptionName }) {
  const name = message({ exceptionName });
  const lines = String(stacktrace ?? "")
    .split("\n")
    .filter((line) => /^\S/.test(line));
  const starts = (line) => line.split(/[:\s]/, 1)[0].split(".").pop() === name;
  const found = lines.find(starts) ?? lines.find((line) => !line.startsWith("Traceback"));
  return found?.trim() ?? name;
}

function entryFacts(entry) {
  const restored = entry["restored-checkpoint"];
  return facts([
    ["When", time(entry.timestamp)],
    ["What", h("strong", null, headline(entry))],
    entry.taskName ? ["Task", entry.taskName] : null,
    entry.endpoint ? ["Worker", entry.endpoint] : null,
    entry.failureLabels?.cause ? ["Cause", entry.failureLabels.cause] : null,
    typeof entry.attempt === "number" ? ["Attempt", count(entry.attempt)] : null,
    typeof restored === "number" ? ["Then restored from", `checkpoint ${restored}`] : null,
  ]);
}

const FRAME = /^\s*File "(.+)", line \d+|^\s*at .+\(/;
// Jobs lie in a directory `penstock/jobs`, so our own frames are known by the names of our packages.
const PACKAGES =
  "checkpoint|cli|common|connectors|core|datastream|graph|jobmanager|launch|operators|runtime|spark|state|testing";
const OURS = new RegExp(
  `[\\\\/](penstock[\\\\/](${PACKAGES})|pyspark|site-packages|dist-packages)[\\\\/]|<frozen |^\\s*at `,
);

/** Lines of a stack trace, each with whether it belongs to the program of the user. */
export function traceLines(text) {
  let isOurs = false;
  let sawFrame = false;
  return String(text ?? "")
    .split("\n")
    .map((line) => {
      if (FRAME.test(line)) {
        sawFrame = true;
        isOurs = OURS.test(line);
      } else if (!/^\s/.test(line)) {
        isOurs = false;
        sawFrame = false;
      }
      return {
        text: line,
        kind: sawFrame ? (isOurs ? "frame-ours" : "frame-user") : "frame-words",
      };
    });
}

/** A stack trace, the frames of the program brighter than others. */
export function trace({ stacktrace }) {
  return h(
    "div",
    { class: "trace-block" },
    copyButton(String(stacktrace ?? "")),
    h(
      "pre",
      { class: "trace", tabindex: "0", "aria-label": "Stack trace" },
      traceLines(String(stacktrace ?? "").trimEnd()).map(({ text, kind }) =>
        h("span", { class: kind }, `${text}\n`),
      ),
    ),
  );
}

function folded(entry) {
  return h(
    "details",
    { class: "fold", key: `${entry.timestamp} ${entry.attempt ?? ""} ${entry.exceptionName}` },
    h("summary", null, time(entry.timestamp), h("span", { class: "clipped" }, headline(entry))),
    entryFacts(entry),
    trace(entry),
  );
}
