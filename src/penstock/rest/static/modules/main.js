// Starts the pages: address -> page -> documents -> description -> screen.

import { clock, hasToken, setToken, takeToken } from "./api.js";
import { patch, h } from "./dom.js";
import { Live } from "./live.js";
import { drawNotices, onNotices } from "./notices.js";
import * as job from "./page_job.js";
import * as jobmanager from "./page_jobmanager.js";
import * as overview from "./page_overview.js";
import { parse } from "./router.js";
import { connectionBar, topBar } from "./shell.js";

const PAGES = { overview, job, jobmanager };
const COMMON = { config: { path: "config", once: true } };
const TICK_MS = 1_000;

const live = new Live(schedule);
const places = Object.fromEntries(
  ["top", "connection", "main", "notices"].map((id) => [id, document.getElementById(id)]),
);
let route = parse(ownAddress());
let local = {};
let isDue = false;
let shownPlace = "";

/** Returns the address after `#`; a token in it leaves the address bar and the history. */
function ownAddress() {
  const address = takeToken(location.hash);
  if (address !== location.hash) history.replaceState(null, "", address);
  return address;
}

/** Draws at the next frame, however often it is asked for until then. */
function schedule() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

function draw() {
  const interval = live.data.config?.["refresh-interval"];
  if (interval > 0) live.intervalMs = interval;
  const isAway = live.connection.state === "away" && live.connection.lastMs !== null;
  const page = {
    route,
    data: live.data,
    errors: live.errors,
    connection: live.connection,
    features: live.data.config?.features ?? {},
    local,
    // What was known is not made older while the service is away.
    now: isAway ? live.connection.lastMs + clock.offset : clock.now(),
    width: places.main.clientWidth,
    refresh: () => live.refresh(),
    update(change) {
      change();
      follow();
      schedule();
    },
  };
  const { title, content } = PAGES[route.page].view(page);
  document.title = title ? `${title} · Penstock` : "Penstock";
  places.main.classList.toggle("away", isAway);
  patch(places.top, topBar(page));
  patch(places.connection, connectionBar(page, retry));
  patch(places.main, live.connection.refusal ? tokenForm() : content);
  patch(places.notices, drawNotices());
  showTabs();
}

// The documents of a page depend on its address and on what is opened in it.
function follow() {
  const { resources, events } = PAGES[route.page].needs(route, local);
  live.watch({ ...COMMON, ...resources }, events);
}

function retry() {
  live.restart();
}

function tokenForm() {
  const onsubmit = (event) => {
    event.preventDefault();
    setToken(event.target.elements.token.value.trim());
    live.restart();
  };
  return h(
    "form",
    { class: "panel token", onsubmit },
    h("h1", null, "This service asks for its token"),
    h(
      "p",
      null,
      "The address that was printed when it started has the token behind #token=. The token stays in this tab.",
    ),
    h("p", hasToken() ? { class: "failure", role: "alert" } : null, live.connection.refusal),
    h(
      "label",
      null,
      "Token",
      h("input", { name: "token", type: "password", required: true, autocomplete: "off" }),
    ),
    h("button", { class: "primary" }, "Continue"),
  );
}

function navigate() {
  const before = route;
  const had = location.hash;
  route = parse(ownAddress());
  if (location.hash !== had) live.restart();
  const isOther = before.page !== route.page || before.job !== route.job;
  if (isOther) local = {};
  follow();
  schedule();
  const isMoved = isOther || before.tab !== route.tab || before.view !== route.view;
  if (isMoved) scrollTo(0, 0);
  // Whoever goes on by keyboard or screen reader starts at the new page.
  if (isOther) places.main.focus({ preventScroll: true });
}

// On a phone the tabs are wider than the screen; the chosen one is brought into view, once.
function showTabs() {
  const place = [route.page, route.job, route.tab, route.view].join(" ");
  const chosen = places.main.querySelectorAll("nav [aria-current=page]");
  if (place === shownPlace || chosen.length === 0) return;
  shownPlace = place;
  for (const each of chosen) {
    each.scrollIntoView({ block: "nearest", inline: "center" });
  }
}

addEventListener("hashchange", navigate);
addEventListener("resize", schedule);
onNotices(schedule);
setInterval(() => document.hidden || schedule(), TICK_MS);
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  places.main.focus();
};
follow();
schedule();
