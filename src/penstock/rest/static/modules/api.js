// Requests to the service. Nothing else in these pages talks to it.

const ANSWER_MS = 15_000;
const TOKEN_KEY = "penstock.token";

/** What the service answered when it did not do what was asked. */
export class ServiceError extends Error {
  constructor(status, messages, leader = null) {
    super(messages.join(" "));
    this.status = status;
    this.leader = leader;
  }
}

/** The service was not reached, or cannot answer now; asking again may help. */
export class AwayError extends Error {
  constructor(message, leader = null) {
    super(message);
    this.leader = leader;
  }
}

/** Difference between the clocks of the service and of this browser. */
export const clock = { offset: 0, now: () => Date.now() + clock.offset };

export function setToken(token) {
  isSure = false;
  if (token) sessionStorage.setItem(TOKEN_KEY, token);
  else sessionStorage.removeItem(TOKEN_KEY);
}

/** Takes the token out of an address such as `#token=…/jobs/…`; returns what is left of it. */
export function takeToken(hash) {
  const found = /^#token=([^/&]+)(.*)$/.exec(hash);
  if (found === null) return hash;
  setToken(decodeURIComponent(found[1]));
  return `#${found[2] || "/"}`;
}

/** Whether this tab has a token, right or wrong. */
export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;

/** Headers of a request, with the token if there is one and the service still has it too. */
export async function headers(extra = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (!token) return extra;
  if (!isSure) await makeSure(token);
  return { Authorization: `Bearer ${token}`, ...extra };
}

// After the service was away, another program may have its port. It sees no token before it has
// shown that it holds the same one; a service that never could, behind a tunnel, is not asked again.
let isSure = false;
let hasProved = false;

async function makeSure(token) {
  if (location.protocol !== "http:" || !crypto.subtle) return;
  const challenge = newTriggerId();
  const ask = { cache: "no-store", headers: { "X-Penstock-Challenge": challenge } };
  const answer = await fetch("health/live", { ...ask, signal: AbortSignal.timeout(ANSWER_MS) });
  const bytes = (text) => new TextEncoder().encode(text);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(token), algorithm, false, ["sign"]);
  const message = `penstock job manager at port ${location.port || 80}: ${challenge}`;
  const wanted = await crypto.subtle.sign("HMAC", key, bytes(message));
  const isProved = answer.headers.get("X-Penstock-Proof") === hex(new Uint8Array(wanted));
  if (hasProved && !isProved) {
    throw new ServiceError(401, [
      "What answers here does not hold the token of this tab, so it was not sent: the service was started again and has a new one, or another program has its port.",
    ]);
  }
  hasProved ||= isProved;
  isSure = true;
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      cache: "no-store",
      credentials: "same-origin",
      signal: AbortSignal.timeout(ANSWER_MS),
      ...options,
      headers: await headers(options.headers),
    });
  } catch (error) {
    isSure = false;
    if (error instanceof ServiceError) throw error;
    throw new AwayError(error.name === "TimeoutError" ? "no answer in time" : "not reached");
  }
  readClock(answer);
  if (answer.ok) return answer;
  const messages = await errorsOf(answer);
  const leader = answer.headers.get("X-Penstock-Leader");
  if ([502, 503, 504].includes(answer.status)) throw new AwayError(messages.join(" "), leader);
  throw new ServiceError(answer.status, messages, leader);
}

async function errorsOf(answer) {
  try {
    const { errors } = await answer.json();
    if (Array.isArray(errors) && errors.length > 0) return errors.map(String);
  } catch {
    // Not JSON: the status line is all there is to tell.
  }
  return [`${answer.status} ${answer.statusText}`.trim()];
}

// The header has whole seconds, so smaller differences say nothing.
function readClock(answer) {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  const offset = date + 500 - Date.now();
  clock.offset = Math.abs(offset) < 2_000 ? 0 : offset;
}

/** Returns a document; undefined when the service has none under this path (404). */
export async function getJson(path, mostMs = ANSWER_MS) {
  try {
    const answer = await request(path, {
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(mostMs),
    });
    return await answer.json();
  } catch (error) {
    if (error instanceof ServiceError && error.status === 404) return undefined;
    if (error instanceof SyntaxError) throw new AwayError("an answer that is not JSON");
    throw error;
  }
}

export async function getText(path) {
  const answer = await request(path, { headers: { Accept: "text/plain" } });
  return answer.text();
}

/** Asks for a change. */
export async function change(method, path, body) {
  const answer = await request(path, {
    method,
    headers: { "Content-Type": "application/json", "X-Requested-With": "penstock" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

/** 32 hex digits, so that an operation asked for twice is done once. */
export function newTriggerId() {
  return hex(crypto.getRandomValues(new Uint8Array(16)));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits for an operation and returns what came of it; survives a service that is away. */
export async function operation(path, trigger) {
  for (let wait = 200; ; wait = Math.min(wait * 1.5, 2_000)) {
    try {
      const answer = await getJson(`${path}/${trigger}`);
      if (answer === undefined) throw new ServiceError(404, ["The service does not know it."]);
      if (answer.status?.id === "COMPLETED") return outcome(answer.operation ?? {});
    } catch (error) {
      if (!(error instanceof AwayError)) throw error;
    }
    await pause(wait);
  }
}

function outcome(result) {
  const cause = result["failure-cause"];
  if (cause) throw new ServiceError(500, [cause["stack-trace"] ?? cause.class ?? "It failed."]);
  return result;
}
