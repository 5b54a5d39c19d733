// The page: listens to the door, and hands each snapshot of the cluster to the parts that show it.

import { $, h, set, text } from "./dom.js";
import { count, percent } from "./format.js";
import { showMap } from "./map.js";
import { showNodes } from "./nodes.js";
import { showKeyspaces, showSlow } from "./keyspaces.js";
import { showProblems } from "./problems.js";
import { offerKeyspaces, startBrowser } from "./browser.js";
import { startPrompt } from "./prompt.js";

/** Without an event for so long, in milliseconds, the figures may be old. */
const SILENCE = 2500;

let heardAt = 0;

function state(word, kind) {
  text($("state"), word);
  set($("state"), "class", kind ? `state ${kind}` : "state");
}

function showState(snapshot) {
  if (snapshot.unreachable) return state(`✕ no node answers: ${snapshot.unreachable}`, "bad");
  const down = snapshot.nodes.filter((node) => !node.up).length;
  const dark = snapshot.keyspaces.flatMap((keyspace) => keyspace.shards).filter((shard) => ["lost", "not served"].includes(shard.verdict));
  if (dark.length > 0) return state(`✕ ${dark.length} ${dark.length === 1 ? "shard is" : "shards are"} not served`, "bad");
  if (down > 0) return state(`▲ ${down} of ${snapshot.nodes.length} nodes down, all shards served`, "warn");
  if (snapshot.problems.length > 0) return state(`▲ all served, ${snapshot.problems.length} to look at`, "warn");
  return state(`● all ${snapshot.nodes.length} nodes up`, "");
}

const totals = new Map();

function total(name, value) {
  if (!totals.has(name)) {
    const figure = h("dd");
    totals.set(name, figure);
    $("totals").append(h("div", {}, h("dt", {}, name), figure));
  }
  text(totals.get(name), value);
}

function showTotals(snapshot) {
  const used = snapshot.keyspaces.filter((keyspace) => !keyspace.name.startsWith("_"));
  const sum = (of) => used.reduce((before, keyspace) => before + of(keyspace), 0);
  const [commits, aborts] = [sum((it) => it.commits_per_second), sum((it) => it.aborts_per_second)];
  total("commits/s", count(commits));
  total("aborted", commits + aborts > 0 ? percent(aborts / (commits + aborts)) : "–");
  total("nodes", `${snapshot.nodes.filter((node) => node.up).length}/${snapshot.nodes.length}`);
  total("shards", sum((it) => it.shards_total));
}

function show(snapshot) {
  text($("cluster"), snapshot.cluster);
  document.title = snapshot.cluster ? `${snapshot.cluster} – Quorate` : "Quorate";
  showState(snapshot);
  if (snapshot.unreachable) return;
  showTotals(snapshot);
  showMap(snapshot);
  showProblems(snapshot);
  showKeyspaces(snapshot);
  showNodes(snapshot);
  showSlow(snapshot);
  offerKeyspaces(snapshot);
}

let events = null;

/** Listens to the door while somebody can see the page: a hidden one costs the cluster nothing. */
function listen() {
  if (document.hidden) {
    events?.close();
    events = null;
    return;
  }
  if (events !== null) return;
  heardAt = Date.now();
  events = new EventSource("/v1/events");
  events.addEventListener("snapshot", (event) => {
    heardAt = Date.now();
    show(JSON.parse(event.data));
  });
  events.addEventListener("error", (event) => {
    // A connection that has broken is made again by the browser; one that was refused is not.
    if (event.target.readyState !== EventSource.CLOSED) return;
    state("▲ the node refuses: too many pages may be open; reload to try again", "warn");
    heardAt = 0;
  });
}

document.addEventListener("visibilitychange", listen);

setInterval(() => {
  const silence = Date.now() - heardAt;
  if (events === null || heardAt === 0 || silence < SILENCE) return;
  state(`▲ not heard from the node for ${Math.round(silence / 1000)} s: these figures are old`, "warn");
}, 1000);

text($("served"), `Served by the node at ${location.host}.`);
startBrowser();
startPrompt();
listen();
