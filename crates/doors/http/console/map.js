// The sites, as far from each other as their round trips say. No geography is needed: the layout minimises the difference between drawn and measured distances.

import { $, s, set, text } from "./dom.js";
import { duration } from "./format.js";

/** Width, height and margins of the picture: on a narrow screen it is drawn narrower, and not smaller. */
const [WIDE, NARROW] = [[760, 400, 110, 92], [340, 300, 62, 72]];

const size = () => ($("map").clientWidth < 520 ? NARROW : WIDE);

/** Round trips below this, in seconds, look alike: machines of one room are not to fly apart because of noise. */
const NOISE = 0.002;

let drawn = null;
let places = [];

/** The round trips that were measured last, by the names of two sites: a site that is gone stays where it was. */
const remembered = new Map();

const way = (sites, from, to) => remembered.get(`${sites[from].name} ${sites[to].name}`) ?? null;

/** The distance that two sites should have, from 0 to 1. */
function distances(sites) {
  const known = sites.flatMap((_, from) => sites.map((_, to) => (to === from ? null : way(sites, from, to)))).filter((it) => it !== null);
  const longest = Math.max(NOISE, ...known);
  const of = (from, to) => Math.max(NOISE, way(sites, from, to) ?? longest) / longest;
  return sites.map((_, from) => sites.map((_, to) => (from === to ? 0 : 0.25 + 0.75 * of(from, to))));
}

/** Moves points until their distances are as wished, as far as a plane allows (stress majorisation by single steps). */
function layout(wished) {
  const n = wished.length;
  const points = wished.map((_, at) => [Math.cos((2 * Math.PI * at) / n + 2.6), Math.sin((2 * Math.PI * at) / n + 2.6)]);
  for (let round = 0; round < 300; round += 1) {
    for (let at = 0; at < n; at += 1) {
      let [x, y, weights] = [0, 0, 0];
      for (let other = 0; other < n; other += 1) {
        if (other === at) continue;
        const [dx, dy] = [points[at][0] - points[other][0], points[at][1] - points[other][1]];
        const length = Math.hypot(dx, dy) || 1e-6;
        const weight = 1 / wished[at][other] ** 2;
        x += weight * (points[other][0] + (wished[at][other] * dx) / length);
        y += weight * (points[other][1] + (wished[at][other] * dy) / length);
        weights += weight;
      }
      if (weights > 0) points[at] = [x / weights, y / weights];
    }
  }
  return points;
}

/** Turns points so that their longest line lies level, and stretches them into the picture. */
function fit(points) {
  const [width, height, marginX, marginY] = size();
  let [from, to, longest] = [0, 0, -1];
  points.forEach((one, at) =>
    points.forEach((other, beside) => {
      const length = Math.hypot(one[0] - other[0], one[1] - other[1]);
      if (length > longest) [from, to, longest] = [at, beside, length];
    }),
  );
  const angle = points.length > 1 ? -Math.atan2(points[to][1] - points[from][1], points[to][0] - points[from][0]) : 0;
  const turned = points.map(([x, y]) => [x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)]);
  const bounds = (axis) => [Math.min(...turned.map((it) => it[axis])), Math.max(...turned.map((it) => it[axis]))];
  const [[left, right], [top, bottom]] = [bounds(0), bounds(1)];
  const [across, along] = [(width - 2 * marginX) / (right - left || 1), (height - 2 * marginY) / (bottom - top || 1)];
  const scale = Math.min(across, along);
  // On a narrow screen there is room below, and names need it.
  const stretch = size() === NARROW ? Math.min(along, 1.6 * scale) : scale;
  return turned.map(([x, y]) => [width / 2 + (x - (left + right) / 2) * scale, height / 2 + (y - (top + bottom) / 2) * stretch]);
}

function draw(snapshot) {
  const picture = s("svg", { viewBox: `0 0 ${size()[0]} ${size()[1]}`, role: "img", "aria-labelledby": "map-title" });
  const title = s("title", { id: "map-title" });
  const [ways, labels, sites] = [s("g"), s("g"), s("g")];
  picture.append(title, ways, labels, sites);
  places = fit(layout(distances(snapshot.sites)));
  const pairs = [];
  snapshot.sites.forEach((_, from) => {
    for (let to = from + 1; to < snapshot.sites.length; to += 1) {
      const [[x1, y1], [x2, y2]] = [places[from], places[to]];
      const line = s("line", { class: "way", x1, y1, x2, y2 });
      const label = s("text", { class: "way-label", x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 4 });
      const ground = s("rect", { class: "way-label-ground", x: (x1 + x2) / 2 - 30, y: (y1 + y2) / 2 - 11, width: 60, height: 22, rx: 6 });
      ways.append(line);
      labels.append(ground, label);
      pairs.push({ from, to, line, label });
    }
  });
  const discs = snapshot.sites.map((site, at) => {
    const [x, y] = places[at];
    const dots = s("g");
    const word = s("text", { class: "site-word", x, y: y + 62 });
    const group = s("g", { class: "site" }, s("circle", { class: "site-disc", cx: x, cy: y, r: 26 }), dots, s("text", { class: "site-name", x, y: y + 45 }, site.name), word);
    sites.append(group);
    return { group, dots, word, x, y };
  });
  $("map").replaceChildren(picture);
  return { signature: signature(snapshot), size: size(), title, pairs, discs };
}

/** The picture is drawn anew only if a site is new, or so far away now that it would stand elsewhere. */
function signature(snapshot) {
  const step = (value) => (value === null ? "?" : Math.round(Math.log(Math.max(value, NOISE)) * 2));
  return JSON.stringify(snapshot.sites.map((site, from) => [site.name, snapshot.sites.map((_, to) => step(way(snapshot.sites, from, to)))]));
}

function showDots({ dots, x, y }, nodes) {
  const key = JSON.stringify(nodes.map((node) => [node.node, node.up]));
  if (dots.dataset.key === key) return;
  dots.dataset.key = key;
  const across = Math.min(4, Math.max(1, Math.ceil(Math.sqrt(nodes.length))));
  const rows = Math.ceil(nodes.length / across);
  const marks = nodes.slice(0, 16).map((node, at) => {
    const [cx, cy] = [x + ((at % across) - (Math.min(across, nodes.length) - 1) / 2) * 12, y + (Math.floor(at / across) - (rows - 1) / 2) * 12];
    return node.up
      ? s("circle", { class: "node-dot", cx, cy, r: 4.5 })
      : s("path", { class: "node-cross", d: `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8` });
  });
  dots.replaceChildren(...marks);
}

/** How many nodes of a site are up, in words. */
function wordOf(nodes, up) {
  if (nodes === 0) return "no node";
  if (up === nodes) return `${up} ${up === 1 ? "node" : "nodes"} up`;
  return up === 0 ? "down" : `${nodes - up} of ${nodes} nodes down`;
}

export function showMap(snapshot) {
  snapshot.sites.forEach((site, from) =>
    site.round_trips.forEach((it, to) => it !== null && remembered.set(`${site.name} ${snapshot.sites[to].name}`, it)),
  );
  if (!drawn || drawn.size !== size() || drawn.signature !== signature(snapshot)) drawn = draw(snapshot);
  const told = [];
  const isUp = (at) => snapshot.nodes.some((node) => node.site === at && node.up);
  for (const { from, to, line, label } of drawn.pairs) {
    const isCut = !isUp(from) || !isUp(to);
    const roundTrip = snapshot.sites[from].round_trips[to];
    set(line, "class", isCut ? "way cut" : "way");
    text(label, isCut ? "✕" : duration(roundTrip));
    if (!isCut && roundTrip !== null) told.push(`${snapshot.sites[from].name} to ${snapshot.sites[to].name} ${duration(roundTrip)}`);
  }
  drawn.discs.forEach((disc, at) => {
    const nodes = snapshot.nodes.filter((node) => node.site === at);
    const up = nodes.filter((node) => node.up).length;
    const kind = nodes.length > 0 && up === 0 ? "down" : up < nodes.length ? "degraded" : "";
    set(disc.group, "class", `site ${kind}`);
    text(disc.word, wordOf(nodes.length, up));
    told.push(`${snapshot.sites[at].name}: ${disc.word.textContent}`);
    showDots(disc, nodes);
  });
  text(drawn.title, told.join("; "));
}
