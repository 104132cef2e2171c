// Descriptions of elements, and the patching of a page to match them.
//
// A view returns plain descriptions made by `h`. `patch` changes only what differs, so a refresh
// keeps focus, selection, scroll position and open details. Data reaches the page as text nodes and
// attributes alone; there is no way here to write markup from a string.

const SVG = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "indeterminate", "open", "selected"]);
const SAFE_ADDRESS = /^(#|\/|https?:\/\/)/i;

/** Describes an element. Children are descriptions, text, numbers, or nothing; lists are flattened. */
export function h(tag, attributes = null, ...children) {
  const { key = null, ...rest } = attributes ?? {};
  return { tag, key, attributes: rest, children: flatten(children) };
}

function flatten(children) {
  const kept = [];
  for (const child of children) {
    if (Array.isArray(child)) kept.push(...flatten(child));
    else if (child === null || child === undefined || child === false || child === true) continue;
    else if (typeof child === "object") kept.push(child);
    else kept.push({ text: String(child) });
  }
  return kept;
}

const drawn = new WeakMap();

/** Makes the children of `parent` what `children` describes. */
export function patch(parent, ...children) {
  patchChildren(parent, flatten(children), parent.namespaceURI === SVG);
}

function patchChildren(parent, wanted, inSvg) {
  const present = new Map();
  for (const node of parent.childNodes) {
    const was = drawn.get(node);
    present.set(was ? was.slot : Symbol("foreign"), node);
  }
  const counts = new Map();
  const nodes = wanted.map((each) => {
    const slot = slotOf(each, counts);
    const node = present.get(slot);
    if (!node) return create(each, slot, inSvg);
    present.delete(slot);
    update(node, each, slot);
    return node;
  });
  for (const node of present.values()) node.remove();
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

// Where a description goes: its key, or which of the unnamed siblings of its kind it is.
function slotOf(each, counts) {
  if (each.key !== null && each.key !== undefined) return `${each.tag}=${each.key}`;
  const kind = each.tag ?? "#text";
  const count = counts.get(kind) ?? 0;
  counts.set(kind, count + 1);
  return `${kind}#${count}`;
}

function create(each, slot, inSvg) {
  if (each.tag === undefined) {
    const node = document.createTextNode(each.text);
    drawn.set(node, { slot, attributes: {} });
    return node;
  }
  const isSvg = inSvg || each.tag === "svg";
  const node = isSvg ? document.createElementNS(SVG, each.tag) : document.createElement(each.tag);
  drawn.set(node, { slot, attributes: {} });
  update(node, each, slot);
  return node;
}

function update(node, each, slot) {
  if (each.tag === undefined) {
    if (node.data !== each.text) node.data = each.text;
    return;
  }
  const was = drawn.get(node).attributes;
  drawn.set(node, { slot, attributes: each.attributes });
  const isSvg = node.namespaceURI === SVG;
  patchChildren(node, each.children, isSvg);
  for (const name of Object.keys(was)) {
    if (!(name in each.attributes)) set(node, name, null, was[name]);
  }
  for (const [name, value] of Object.entries(each.attributes)) set(node, name, value, was[name]);
}

function set(node, name, value, was) {
  if (name.startsWith("on")) {
    node[name] = value;
  } else if (AS_PROPERTY.has(name)) {
    // A field keeps what a person has typed until the view asks for something else.
    if (value !== was) node[name] = value ?? "";
  } else if (value === was) {
    return;
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else if (name === "href" && !SAFE_ADDRESS.test(value)) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}
