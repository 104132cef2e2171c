// Keeps the documents of the open page fresh.
//
// 1. A page names the documents it shows; all are fetched at once, then again and again.
// 2. While the service sends events, a changed document is fetched at once and polling is slow;
//    without events every document is fetched at the service's refresh interval.
// 3. Nothing is fetched while the tab is hidden.
// 4. When the service is away the last documents stay, and asking goes on with growing pauses.

import { AwayError, getJson } from "./api.js";
import { follow } from "./events.js";

const WITH_EVENTS_MS = 10_000;
const BETWEEN_EVENTS_MS = 1_000;
const AWAY_MS = [500, 1_000, 2_000, 3_000, 5_000];

export class Live {
  /** @param onChange is called whenever data or the connection changed. */
  constructor(onChange) {
    this.onChange = onChange;
    this.intervalMs = 3_000;
    this.data = {};
    this.errors = {};
    this.connection = { state: "connecting", lastMs: null, leader: null, refusal: null };
    this.resources = {};
    this.eventsPath = null;
    this.failures = 0;
    this.generation = 0;
    this.changed = new Set();
    document.addEventListener("visibilitychange", () => this.restart());
  }

  /**
   * Changes what is watched.
   *
   * @param resources by name `{path, document?, once?}`; `document` is the service's name for it in
   *     events, `once` marks what does not change.
   * @param eventsPath where the events of the job come from, or null.
   */
  watch(resources, eventsPath) {
    const same = (name) => this.resources[name]?.path === resources[name].path;
    const names = Object.keys(resources);
    const unchanged =
      names.length === Object.keys(this.resources).length &&
      names.every(same) &&
      eventsPath === this.eventsPath;
    if (unchanged) return;
    // Another part of the same document: what is known stays until the new part is here.
    const isPart = (name) =>
      eventsPath === this.eventsPath &&
      resources[name].document !== undefined &&
      resources[name].document === this.resources[name]?.document;
    const kept = names.filter((name) => (same(name) || isPart(name)) && name in this.data);
    this.data = Object.fromEntries(kept.map((name) => [name, this.data[name]]));
    this.errors = {};
    this.resources = resources;
    this.eventsPath = eventsPath;
    this.restart();
  }

  /** Starts over: fetches everything now, unless nobody is looking. */
  restart() {
    this.generation += 1;
    clearTimeout(this.timer);
    this.stopEvents?.();
    this.stopEvents = null;
    this.hasEvents = false;
    this.changed.clear();
    if (document.hidden) return;
    if (this.eventsPath) {
      this.stopEvents = follow(this.eventsPath, {
        onOpen: () => (this.hasEvents = true),
        onClose: () => this.noteEventsEnd(),
        onEvent: (name) => this.noteChange(name),
      });
    }
    this.fetchAll(Object.keys(this.resources));
  }

  /** Fetches everything once more, after something was asked of the service. */
  refresh() {
    if (!document.hidden) this.fetchAll(Object.keys(this.resources));
  }

  // A stream that breaks is often the first sign that the service is away.
  noteEventsEnd() {
    if (!this.hasEvents) return;
    this.hasEvents = false;
    this.refresh();
  }

  noteChange(documentName) {
    this.changed.add(documentName);
    if (this.eventTimer) return;
    this.eventTimer = setTimeout(() => {
      this.eventTimer = null;
      const hit = ([, { document: name }]) => name !== undefined && this.changed.has(name);
      const names = Object.entries(this.resources)
        .filter(hit)
        .map(([name]) => name);
      this.changed.clear();
      if (names.length > 0 && !document.hidden) this.fetchAll(names);
    }, BETWEEN_EVENTS_MS);
  }

  async fetchAll(names) {
    const generation = this.generation;
    clearTimeout(this.timer);
    const due = names.filter((name) => !(this.resources[name].once && name in this.data));
    const outcomes = await Promise.allSettled(
      due.map((name) => getJson(this.resources[name].path)),
    );
    if (generation !== this.generation) return;
    const away = outcomes.find(({ reason }) => reason instanceof AwayError);
    outcomes.forEach(({ status, value, reason }, index) => {
      const name = due[index];
      if (status === "fulfilled") {
        this.data[name] = value;
        delete this.errors[name];
      } else if (!(reason instanceof AwayError)) {
        this.errors[name] = reason;
      }
    });
    this.noteConnection(away?.reason, due.length > 0);
    this.timer = setTimeout(() => this.fetchAll(Object.keys(this.resources)), this.pauseMs());
    this.onChange();
  }

  noteConnection(away, asked) {
    if (away) {
      this.failures += 1;
      this.connection = { ...this.connection, state: "away", leader: away.leader };
    } else if (asked) {
      this.failures = 0;
      const refused = Object.values(this.errors).find((error) => error.status === 401);
      const refusal = refused?.message ?? null;
      this.connection = { state: "live", lastMs: Date.now(), leader: null, refusal };
    }
  }

  pauseMs() {
    if (this.failures > 0) return AWAY_MS[Math.min(this.failures, AWAY_MS.length) - 1];
    return this.hasEvents ? Math.max(WITH_EVENTS_MS, this.intervalMs) : this.intervalMs;
  }
}
