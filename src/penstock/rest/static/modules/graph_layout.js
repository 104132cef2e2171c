// Where the stages of a job graph go: columns by distance from the sources, few crossings.
//
// Pure: nodes `{id, inputs: [{id, ship_strategy}]}` in, boxes and curves out. An edge over several
// columns gets a place in each of them, so that it passes between the boxes.

const SWEEPS = 6;

/**
 * Lays a graph out.
 *
 * @param nodes of the plan.
 * @param size `{width, height, along, across, lane}`: of a box, the gaps between columns and between
 *     rows, and the room of an edge that passes a column.
 * @param isUpright columns go down the page instead of to the right.
 * @returns `{width, height, boxes: [{id, x, y}], edges: [{key, from, to, label, path, x, y}]}`.
 */
export function layout(nodes, size, isUpright = false) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const ranks = rankOf(nodes, known);
  const { columns, edges } = columnsOf(nodes, known, ranks);
  untangle(columns);
  const deep = isUpright ? size.height : size.width;
  const broad = isUpright ? size.width : size.height;
  const extents = columns.map((column) => extentOf(column, broad, size));
  const breadth = Math.max(...extents, 0);
  columns.forEach((column, rank) => {
    let at = (breadth - extents[rank]) / 2;
    for (const item of column) {
      const room = item.node ? broad : size.lane;
      item.along = rank * (deep + size.along);
      item.across = at;
      item.middle = at + room / 2;
      at += room + size.across;
    }
  });
  const length = columns.length * (deep + size.along) - size.along;
  const place = (along, across) => (isUpright ? [across, along] : [along, across]);
  const boxes = columns
    .flat()
    .filter(({ node }) => node)
    .map(({ node, along, across }) => {
      const [x, y] = place(along, across);
      return { id: node.id, x, y };
    });
  const [width, height] = place(Math.max(length, 0), breadth);
  return { width, height, boxes, edges: edges.map((edge) => curve(edge, deep, place)) };
}

function extentOf(column, broad, size) {
  const rooms = column.reduce((sum, { node }) => sum + (node ? broad : size.lane), 0);
  return rooms + (column.length - 1) * size.across;
}

// The longest way from a source; a plan has no cycles, and one that had would not hang this.
function rankOf(nodes, known) {
  const ranks = new Map();
  const visiting = new Set();
  const visit = (node) => {
    if (ranks.has(node.id)) return ranks.get(node.id);
    if (visiting.has(node.id)) return 0;
    visiting.add(node.id);
    const above = (node.inputs ?? []).filter(({ id }) => known.has(id));
    const rank = above.reduce((most, { id }) => Math.max(most, visit(known.get(id)) + 1), 0);
    visiting.delete(node.id);
    ranks.set(node.id, rank);
    return rank;
  };
  nodes.forEach(visit);
  return ranks;
}

function columnsOf(nodes, known, ranks) {
  const columns = [];
  const items = new Map();
  const put = (rank, item) => {
    (columns[rank] ??= []).push(item);
    return item;
  };
  for (const node of nodes) {
    items.set(node.id, put(ranks.get(node.id), { node, before: [], after: [] }));
  }
  const edges = [];
  for (const node of nodes) {
    (node.inputs ?? []).forEach((input, index) => {
      if (!known.has(input.id)) return;
      const stops = [items.get(input.id)];
      for (let rank = ranks.get(input.id) + 1; rank < ranks.get(node.id); rank += 1) {
        stops.push(put(rank, { node: null, before: [], after: [] }));
      }
      stops.push(items.get(node.id));
      stops.slice(1).forEach((stop, at) => {
        stop.before.push(stops[at]);
        stops[at].after.push(stop);
      });
      const key = `${input.id} ${node.id} ${index}`;
      edges.push({ key, from: input.id, to: node.id, label: input.ship_strategy ?? "", stops });
    });
  }
  return { columns, edges };
}

// Sorts every column by the middle of its neighbours, to and fro.
function untangle(columns) {
  const number = (column) => column.forEach((item, index) => (item.order = index));
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isForth = sweep % 2 === 0;
    const walk = isForth ? columns : [...columns].reverse();
    for (const column of walk) {
      for (const item of column) {
        const near = isForth ? item.before : item.after;
        const sum = near.reduce((total, { order }) => total + order, 0);
        item.place = near.length > 0 ? sum / near.length : item.order;
      }
      column.sort((a, b) => a.place - b.place || a.order - b.order);
      number(column);
    }
  }
}

function curve({ key, from, to, label, stops }, deep, place) {
  const points = [];
  stops.forEach(({ along, middle }, index) => {
    if (index > 0) points.push([along, middle]);
    if (index < stops.length - 1) points.push([along + deep, middle]);
  });
  const at = (point) =>
    place(...point)
      .map((number) => Math.round(number))
      .join(" ");
  let path = `M ${at(points[0])}`;
  for (let index = 1; index < points.length; index += 1) {
    const [a, b] = [points[index - 1], points[index]];
    if (index % 2 === 0) {
      path += ` L ${at(b)}`;
    } else {
      const half = (a[0] + b[0]) / 2;
      path += ` C ${at([half, a[1]])}, ${at([half, b[1]])}, ${at(b)}`;
    }
  }
  const last = points.length - 1;
  const [x, y] = place(
    (points[last - 1][0] + points[last][0]) / 2,
    (points[last - 1][1] + points[last][1]) / 2,
  );
  return { key, from, to, label, path, x: Math.round(x), y: Math.round(y) };
}
