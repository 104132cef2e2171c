// Graph: the stages of the job, and the subtasks of the one that is chosen.

import { h } from "./dom.js";
import { bytes, count, duration, isInstant, isNumber, rate, share, time, total } from "./format.js";
import { graph } from "./graph.js";
import { clipped, empty, figures, meter, missing, section } from "./parts.js";
import { link } from "./router.js";
import { badge, isEnded, taskBar } from "./states.js";
import { table } from "./table.js";
import { skew, subtaskFigures, vertexFigures } from "./vertices.js";

const NOTEWORTHY_SKEW = 2;

export function needs(base, route) {
  const vertex = route.item;
  if (vertex === null) return {};
  const path = `${base}/vertices/${encodeURIComponent(vertex)}`;
  return { vertex: { path, document: `vertices/${vertex}` } };
}

export function view(page, job) {
  const vertices = job.vertices ?? [];
  if (vertices.length === 0) {
    const log = h("a", { href: link("jobs", job.jid, "logs") }, "log");
    return isEnded(job.state)
      ? empty(
          "The program ended before it had a graph",
          "It did not get as far as execute(); the ",
          log,
          " says why.",
        )
      : empty(
          "The graph is not known yet",
          "It appears when the program calls execute(). If it stays away, look at the ",
          log,
          ".",
        );
  }
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const figuresById = new Map(
    vertices.map((vertex) => [vertex.id, vertexFigures(vertex, job.now ?? page.now)]),
  );
  const selected = byId.has(page.route.item) ? page.route.item : null;
  const nodes = job.plan?.nodes ?? vertices.map(({ id }) => ({ id, inputs: [] }));
  return [
    totals(vertices, figuresById, job["state-placement"]),
    graph(page, {
      nodes,
      vertices: byId,
      figuresOf: (id) => figuresById.get(id) ?? {},
      selected,
    }),
    selected !== null && subtasks(page, byId.get(selected)),
    stages(page, vertices, figuresById),
    executors(page, job.engine?.table ?? []),
  ];
}

function executors(page, rows) {
  if (rows.length === 0) return null;
  return section(
    "Executors",
    { note: "Each holds the state of its subtasks." },
    table(
      {
        id: "executors",
        caption: "Executors of the job",
        rows,
        rowKey: ({ id }) => id,
        columns: [
          { id: "id", label: "Executor", cell: ({ id }) => id, sort: ({ id }) => Number(id) },
          { id: "host", label: "Host", cell: ({ host }) => clipped(host), sort: ({ host }) => host },
          numberColumn("slots", "Slots", (row) => row.slots, count),
          numberColumn("subtasks", "Subtasks", (row) => row.subtasks, count),
          numberColumn("records", "Records in", (row) => row["records-in"], count),
          numberColumn("state", "State", (row) => row["state-bytes"], bytes),
          numberColumn("memory", "Python memory", (row) => row["memory-bytes"], bytes),
        ],
        empty: "No executor has joined yet.",
      },
      page,
    ),
  );
}

function totals(vertices, figuresById, placement) {
  const all = [...figuresById.values()];
  const sum = (name) => {
    const known = all.map((each) => each[name]).filter(isNumber);
    return known.length ? known.reduce((all, value) => all + value, 0) : null;
  };
  const lags = all.map(({ lag }) => lag).filter(isNumber);
  const busiest = all.map(({ busy }) => busy).filter(isNumber);
  const subtaskCount = vertices.reduce((all, { parallelism }) => all + (parallelism ?? 0), 0);
  return figures([
    ["Stages", count(vertices.length)],
    ["Subtasks", count(subtaskCount)],
    ["State", bytes(sum("stateBytes")), "Full size of the state of all stages"],
    [
      "Watermark lag",
      lags.length ? duration(Math.max(...lags)) : "–",
      "The stage whose event time is furthest behind the wall clock",
    ],
    ["Busiest stage", busiest.length ? share(Math.max(...busiest)) : "–"],
    ...(sum("pending") === null
      ? []
      : [["Not read yet", count(sum("pending")), "Records that wait in Kafka: the lag of all partitions"]]),
    ["Late records dropped", count(sum("lateDropped"))],
    ...atHome(placement),
  ]);
}

/** How often subtasks ran where their state is; nothing before the second epoch. */
function atHome(placement) {
  const { "home-hits": hits = 0, restores = 0, moves = 0 } = placement ?? {};
  if (hits + restores === 0) return [];
  return [
    [
      "State at home",
      share(hits / (hits + restores)),
      `Subtasks found their state in their worker ${count(hits)} times, read it from files ` +
        `${count(restores)} times, and moved ${count(moves)} times in this attempt`,
    ],
  ];
}

function numberColumn(id, label, value, show, hint) {
  return { id, label, hint, number: true, sort: value, cell: (row) => show(value(row)) };
}

function watermark({ watermark: value, hasEnded }) {
  if (hasEnded)
    return h("span", { title: "All input has been read: event time has ended" }, "ended");
  return isInstant(value) ? time(value) : "–";
}

function commonColumns() {
  return [
    numberColumn("in", "Records in", (row) => row.recordsIn, total),
    numberColumn("rate-in", "In", (row) => row.rateIn, rate, "Records per second, lately"),
    numberColumn("out", "Records out", (row) => row.recordsOut, total),
    numberColumn("rate-out", "Out", (row) => row.rateOut, rate, "Records per second, lately"),
    {
      id: "watermark",
      label: "Watermark",
      number: true,
      sort: (row) => row.watermark,
      cell: (row) => watermark(row),
    },
    numberColumn(
      "lag",
      "Lag",
      (row) => row.lag,
      duration,
      "How far the watermark is behind the wall clock",
    ),
    numberColumn("state", "State", (row) => row.stateBytes, bytes),
    {
      id: "busy",
      label: "Busy",
      number: true,
      sort: (row) => row.busy,
      cell: (row) => meter(row.busy, share(row.busy)),
    },
    {
      id: "pressure",
      label: "Back pressure",
      number: true,
      sort: (row) => row.backpressured,
      cell: (row) => meter(row.backpressured, share(row.backpressured), "pressure"),
    },
  ];
}

function stages(page, vertices, figuresById) {
  const rows = vertices.map((vertex) => ({ vertex, ...figuresById.get(vertex.id) }));
  const columns = [
    {
      id: "name",
      label: "Stage",
      wide: true,
      sort: ({ vertex }) => vertex.name,
      cell: ({ vertex }) =>
        h("a", { href: link("jobs", page.route.job, "graph", vertex.id) }, clipped(vertex.name)),
    },
    {
      id: "status",
      label: "State",
      sort: ({ vertex }) => vertex.status,
      cell: ({ vertex }) => badge(vertex.status),
    },
    {
      id: "tasks",
      label: "Subtasks",
      sort: ({ vertex }) => vertex.parallelism,
      cell: ({ vertex }) => taskBar(vertex.tasks, { brief: true }),
    },
    ...commonColumns(),
  ];
  return section(
    "Stages",
    { note: "Operators that are chained run in the same subtasks." },
    table(
      {
        id: "stages",
        caption: "Stages of the job",
        columns,
        rows,
        rowKey: ({ vertex }) => vertex.id,
        rowClass: ({ vertex }) => (vertex.id === page.route.item ? "chosen" : null),
        searchText: ({ vertex }) => vertex.name,
        empty: "No stages.",
      },
      page,
    ),
  );
}

function subtasks(page, vertex) {
  const found = page.data.vertex;
  const close = h(
    "a",
    {
      class: "button quiet",
      href: link("jobs", page.route.job, "graph"),
      "aria-label": "Close the subtasks",
    },
    "×",
  );
  const head = {
    class: "section chosen-stage",
    note: `parallelism ${count(vertex.parallelism)}, max ${count(vertex.maxParallelism)}`,
    tools: close,
  };
  const title = `Subtasks of ${vertex.name}`;
  if (!found?.subtasks) return section(title, head, missing(page, "vertex", "list of subtasks"));
  const rows = found.subtasks.map((each) => subtaskFigures(each, found.now ?? page.now));
  const columns = [
    numberColumn("index", "Subtask", (row) => row.index, count),
    { id: "status", label: "State", sort: (row) => row.status, cell: (row) => badge(row.status) },
    ...commonColumns(),
    {
      id: "worker",
      label: "Worker",
      sort: (row) => row.worker,
      cell: (row) => clipped(row.worker || "–"),
    },
    numberColumn("attempt", "Attempt", (row) => row.attempt, count),
  ];
  return section(
    title,
    head,
    skewLine(rows),
    table(
      {
        id: `subtasks ${vertex.id}`,
        caption: title,
        columns,
        rows,
        rowKey: (row) => row.index,
        empty: "No subtasks have reported yet.",
      },
      page,
    ),
  );
}

const SKEWED = [
  ["recordsIn", "records in"],
  ["recordsOut", "records out"],
  ["stateBytes", "state"],
  ["busy", "busy share"],
];

function skewLine(rows) {
  const found = SKEWED.map(([name, label]) => [label, skew(rows.map((row) => row[name]))]);
  const known = found.filter(([, value]) => value !== null);
  if (known.length === 0) return null;
  return h(
    "p",
    { class: "skew" },
    h("span", { class: "note" }, "Skew, largest over median: "),
    known.map(([label, value]) => {
      const text =
        value === Infinity ? "only one subtask" : `${value.toFixed(value < 10 ? 2 : 0)}×`;
      const isNotable = value >= NOTEWORTHY_SKEW;
      return h(
        "span",
        { key: label, class: isNotable ? "skew-figure notable" : "skew-figure" },
        `${label} ${text}`,
        isNotable ? h("span", { class: "flag" }, "uneven") : null,
      );
    }),
  );
}
