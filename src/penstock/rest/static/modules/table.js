// Tables: sortable, filtered, in pages of fixed length. On a phone each row becomes a small list.

import { h } from "./dom.js";
import { count } from "./format.js";

const PAGE_ROWS = 50;

/**
 * Describes a table.
 *
 * @param options.id names it; its order, filter and page are kept in `local[id]`.
 * @param options.columns `{id, label, hint?, number?, cell(row), sort?(row), wide?}`.
 * @param options.rows what it shows.
 * @param options.rowKey gives each row a name that lasts over refreshes.
 * @param options.caption what the table is, for screen readers.
 * @param options.detail (row) -> what an opened row shows below itself, or null; rows open when given.
 * @param options.searchText (row) -> what the filter looks at; there is a filter when given.
 * @param options.empty what to say without rows.
 * @param page local state of the page, and `update()` to draw again.
 */
export function table(options, page) {
  const state = (page.local[options.id] ??= {});
  const filtered = filter(options, state);
  const rows = order(options, state, filtered);
  const pages = Math.max(Math.ceil(rows.length / PAGE_ROWS), 1);
  const at = Math.min(state.page ?? 0, pages - 1);
  const shown = rows.slice(at * PAGE_ROWS, (at + 1) * PAGE_ROWS);
  const go = (to) => () => page.update(() => (state.page = to));
  const needsFilter = options.searchText && (options.rows.length > 8 || state.text);
  return h(
    "div",
    { class: "table-block", key: options.id },
    needsFilter && filterField(options, state, page),
    shown.length === 0
      ? h("p", { class: "empty" }, state.text ? "Nothing matches the filter." : options.empty)
      : h(
          "div",
          { class: "table-scroll", tabindex: "0", role: "group", "aria-label": options.caption },
          body(options, state, shown, page),
        ),
    pages > 1 && pager(at, pages, rows.length, go),
  );
}

function filter({ rows, searchText }, { text }) {
  if (!text || !searchText) return rows;
  const sought = text.toLowerCase();
  return rows.filter((row) => searchText(row).toLowerCase().includes(sought));
}

function order({ columns }, { by, descending }, rows) {
  const column = columns.find(({ id }) => id === by);
  if (!column) return rows;
  const value = column.sort;
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "string" || typeof y === "string") {
      return sign * String(x ?? "").localeCompare(String(y ?? ""));
    }
    return sign * ((x ?? -Infinity) - (y ?? -Infinity));
  });
}

function filterField({ id, caption, rows }, state, page) {
  return h(
    "label",
    { class: "filter" },
    h("span", null, "Filter"),
    h("input", {
      type: "search",
      id: `${id}-filter`,
      placeholder: `${count(rows.length)} rows`,
      "aria-label": `Filter: ${caption}`,
      value: state.text ?? "",
      oninput: (event) => {
        const text = event.target.value;
        page.update(() => Object.assign(state, { text, page: 0 }));
      },
    }),
  );
}

function body(options, state, shown, page) {
  const { columns, caption, detail } = options;
  const opened = (state.opened ??= new Set());
  const rows = shown.flatMap((row) => {
    const key = options.rowKey(row);
    const isOpen = opened.has(key);
    const toggle = () => page.update(() => (isOpen ? opened.delete(key) : opened.add(key)));
    const line = h(
      "tr",
      { key, role: "row", class: options.rowClass?.(row) ?? null },
      columns.map((column, index) =>
        cell(column, row, index === 0 && detail ? opener(isOpen, toggle, options, row) : null),
      ),
    );
    if (!isOpen || !detail) return [line];
    const below = h(
      "tr",
      { key: `${key}+`, class: "detail", role: "row" },
      h("td", { colspan: columns.length, role: "cell" }, detail(row)),
    );
    return [line, below];
  });
  return h(
    "table",
    { role: "table", class: options.dense ? "dense" : "stacks" },
    h("caption", { class: "unseen" }, caption),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        columns.map((column) => heading(column, state, page)),
      ),
    ),
    h("tbody", { role: "rowgroup" }, rows),
  );
}

function opener(isOpen, toggle, options, row) {
  const label = `${isOpen ? "Close" : "Open"} ${options.rowName?.(row) ?? "details"}`;
  return h(
    "button",
    {
      class: "opener",
      type: "button",
      "aria-expanded": String(isOpen),
      "aria-label": label,
      onclick: toggle,
    },
    h("span", { "aria-hidden": "true" }, "›"),
  );
}

function cell(column, row, before) {
  const classes = [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ");
  return h(
    "td",
    { role: "cell", class: classes || null, "data-label": column.label },
    before,
    column.cell(row),
  );
}

function heading(column, state, page) {
  const classes = [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ");
  const isBy = state.by === column.id;
  const direction = isBy ? (state.descending ? "descending" : "ascending") : null;
  const attributes = {
    scope: "col",
    role: "columnheader",
    class: classes || null,
    title: column.hint ?? null,
    "aria-sort": direction,
  };
  if (!column.sort) return h("th", attributes, column.label);
  const sort = () =>
    page.update(() => {
      state.descending = isBy ? !state.descending : Boolean(column.number);
      state.by = column.id;
    });
  const arrow = isBy ? (state.descending ? "↓" : "↑") : "";
  return h(
    "th",
    attributes,
    h(
      "button",
      { class: "sort", type: "button", onclick: sort },
      column.label,
      h("span", { class: "arrow", "aria-hidden": "true" }, arrow),
    ),
  );
}

function pager(at, pages, total, go) {
  const first = at * PAGE_ROWS + 1;
  const last = Math.min((at + 1) * PAGE_ROWS, total);
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages of the table" },
    h("span", null, `${count(first)}–${count(last)} of ${count(total)}`),
    h("button", { type: "button", disabled: at === 0, onclick: go(at - 1) }, "Previous"),
    h("button", { type: "button", disabled: at === pages - 1, onclick: go(at + 1) }, "Next"),
  );
}
