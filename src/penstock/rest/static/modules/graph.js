// The job graph as a picture: a box for each stage, a curve for each exchange.

import { h } from "./dom.js";
import { bytes, compact, duration, isNumber, rate, share } from "./format.js";
import { layout } from "./graph_layout.js";
import { section } from "./parts.js";
import { link } from "./router.js";
import { colourOf, labelOf } from "./states.js";

const SIZE = { width: 232, height: 104, along: 84, across: 22, lane: 14 };
const MARGIN = 12;
const NAME_LETTERS = 25;
const ZOOMS = [0.25, 0.4, 0.55, 0.7, 0.85, 1, 1.25, 1.5];
const LEAST_FIT = { across: 0.7, upright: 0.58 };

/** A name in lines that fit a box; the whole name is in the box's title. */
export function nameLines(name, letters = NAME_LETTERS, lines = 2) {
  const found = [];
  let rest = String(name ?? "")
    .replace(/\s+/g, " ")
    .trim();
  while (rest.length > letters && found.length < lines - 1) {
    const arrow = rest.lastIndexOf(" ", letters);
    const at = arrow > letters / 3 ? arrow : letters;
    found.push(rest.slice(0, at));
    rest = rest.slice(at).trim();
  }
  found.push(rest.length > letters ? `${rest.slice(0, letters - 1)}…` : rest);
  return found;
}

/** The picture with its buttons. `figuresOf(id)` gives the figures of a vertex, if it has any. */
export function graph(page, { nodes, vertices, figuresOf, selected }) {
  const state = (page.local.graph ??= {});
  const isUpright = page.width < 700;
  const spread = layoutOnce(state, nodes, isUpright);
  const width = spread.width + 2 * MARGIN;
  const height = spread.height + 2 * MARGIN;
  const least = isUpright ? LEAST_FIT.upright : LEAST_FIT.across;
  const fit = Math.min(Math.max((page.width - (isUpright ? 50 : 70)) / width, least), 1);
  const zoom = state.zoom ?? fit;
  const scale = (to) => () => page.update(() => (state.zoom = to));
  const smaller = ZOOMS.filter((each) => each < zoom - 0.01).pop();
  const larger = ZOOMS.find((each) => each > zoom + 0.01);
  const select = (id) => {
    const isOpen = selected === id;
    location.hash = link("jobs", page.route.job, "graph", isOpen ? null : id);
  };
  const tools = h(
    "div",
    { class: "graph-tools", role: "group", "aria-label": "Size of the graph" },
    h(
      "button",
      { type: "button", "aria-label": "Smaller", disabled: !smaller, onclick: scale(smaller) },
      "−",
    ),
    h(
      "button",
      { type: "button", class: "zoom", title: "Back to the fitting size", onclick: scale(null) },
      share(zoom),
    ),
    h(
      "button",
      { type: "button", "aria-label": "Larger", disabled: !larger, onclick: scale(larger) },
      "+",
    ),
  );
  return section(
    "Job graph",
    { note: "Choose a stage to see its subtasks.", tools },
    h(
      "div",
      { class: "graph", tabindex: "0", role: "group", "aria-label": "Job graph" },
      h(
        "svg",
        {
          class: "graph-picture",
          width: Math.round(width * zoom),
          height: Math.round(height * zoom),
          viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
          role: "group",
          "aria-label": "Stages and exchanges",
        },
        arrowhead(),
        spread.edges.map((edge) => exchange(edge, selected)),
        spread.edges.map((edge) => exchangeLabel(edge)),
        spread.boxes.map((box) =>
          stage(box, vertices.get(box.id) ?? { name: box.id }, figuresOf(box.id), selected, select),
        ),
      ),
    ),
  );
}

// The layout of 200 stages takes a while, and a refresh does not change it.
function layoutOnce(state, nodes, isUpright) {
  const shape = JSON.stringify([isUpright, nodes.map(({ id, inputs }) => [id, inputs])]);
  if (state.shape !== shape) {
    Object.assign(state, { shape, spread: layout(nodes, SIZE, isUpright) });
  }
  return state.spread;
}

function arrowhead() {
  return h(
    "defs",
    null,
    h(
      "marker",
      {
        id: "arrow",
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerWidth: 7,
        markerHeight: 7,
        orient: "auto",
      },
      h("path", { d: "M 0 0.5 L 8 4 L 0 7.5 z", class: "arrowhead" }),
    ),
  );
}

function exchange(edge, selected) {
  const touches = selected !== null && (edge.from === selected || edge.to === selected);
  return h("path", {
    key: `path ${edge.key}`,
    class: touches ? "exchange near" : "exchange",
    d: edge.path,
    "marker-end": "url(#arrow)",
  });
}

function exchangeLabel({ key, label, x, y }) {
  if (!label) return null;
  return h(
    "text",
    { key: `label ${key}`, class: "exchange-label", x, y: y - 5, "text-anchor": "middle" },
    nameLines(label, 13, 1),
  );
}

function stage(box, vertex, figures, selected, select) {
  const isSelected = selected === box.id;
  const lines = nameLines(vertex.name);
  const top = lines.length === 1 ? 27 : 20;
  const words = [
    vertex.name,
    labelOf(vertex.status),
    `parallelism ${vertex.parallelism ?? "unknown"}`,
    `in ${rate(figures.rateIn)}, out ${rate(figures.rateOut)}`,
    `busy ${share(figures.busy)}`,
  ].join("; ");
  const onkeydown = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    select(box.id);
  };
  return h(
    "g",
    {
      key: `stage ${box.id}`,
      class: `stage ${colourOf(vertex.status)}${isSelected ? " selected" : ""}`,
      transform: `translate(${Math.round(box.x)} ${Math.round(box.y)})`,
      tabindex: "0",
      role: "button",
      "aria-pressed": String(isSelected),
      "aria-label": words,
      onclick: () => select(box.id),
      onkeydown,
    },
    h("title", null, `${vertex.name}\n${labelOf(vertex.status)}`),
    h("rect", { class: "box", width: SIZE.width, height: SIZE.height, rx: 5 }),
    h("rect", { class: "fill strip", x: 0, y: 0, width: 4, height: SIZE.height, rx: 2 }),
    lines.map((line, index) =>
      h("text", { class: "stage-name", x: 14, y: top + index * 15 }, line),
    ),
    h(
      "text",
      { class: "stage-more", x: SIZE.width - 10, y: 94, "text-anchor": "end" },
      `× ${vertex.parallelism ?? "?"}`,
    ),
    h("text", { class: "stage-figures", x: 14, y: 57 }, rates(figures)),
    h("text", { class: "stage-more", x: 14, y: 75 }, detail(figures)),
    busyBar(figures),
  );
}

function rates({ rateIn, rateOut, recordsIn, recordsOut }) {
  const one = (now, total) => (isNumber(now) ? rate(now) : compact(total));
  const read = recordsIn > 0 ? [`in ${one(rateIn, recordsIn)}`] : [];
  return [...read, `out ${one(rateOut, recordsOut)}`].join(" · ");
}

function detail({ lag, stateBytes }) {
  const parts = [];
  if (isNumber(lag)) parts.push(`lag ${duration(lag)}`);
  if (isNumber(stateBytes) && stateBytes > 0) parts.push(`state ${bytes(stateBytes)}`);
  return nameLines(parts.join(" · "), 34, 1)[0];
}

function busyBar({ busy, backpressured }) {
  const width = 108;
  const part = (value) => Math.round(Math.min(Math.max(value ?? 0, 0), 1) * width);
  return h(
    "g",
    { class: "busy", transform: "translate(14 87)" },
    h("rect", { class: "busy-all", width, height: 6, rx: 3 }),
    h("rect", { class: "busy-part", width: part(busy), height: 6, rx: 3 }),
    h("rect", {
      class: "pressure-part",
      x: width - part(backpressured),
      width: part(backpressured),
      height: 6,
      rx: 3,
    }),
    h("text", { class: "stage-more", x: width + 8, y: 7 }, isNumber(busy) ? share(busy) : "–"),
  );
}
