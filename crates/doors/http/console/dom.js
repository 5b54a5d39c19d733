// The smallest library that touches changed elements alone: focus, selections and the place of a screen reader stay where they are.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of HTML. */
export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function s(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets an attribute, if it is another one than before; null removes it. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Sets the text of an element, if it is another one than before. */
export function text(element, value) {
  if (element.textContent !== String(value)) element.textContent = value;
}

/** Makes the children of an element those of a list of items: known ones are updated, new ones made, others removed. */
export function list(parent, items, keyOf, make) {
  const known = (parent.known ??= new Map());
  const wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    wanted.add(key);
    let entry = known.get(key);
    if (!entry) {
      entry = make(item);
      known.set(key, entry);
    }
    if (entry.element !== place) parent.insertBefore(entry.element, place);
    else place = place.nextElementSibling;
    entry.update?.(item);
  }
  for (const [key, entry] of known) {
    if (wanted.has(key)) continue;
    entry.element.remove();
    known.delete(key);
  }
}

export const $ = (id) => document.getElementById(id);
