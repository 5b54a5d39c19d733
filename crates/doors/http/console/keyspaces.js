// The keyspaces: how much commits, how fast, which replica leads or lags, and which keys are wanted by many.

import { $, h, list, s, set, text } from "./dom.js";
import { count, duration, percent, span } from "./format.js";

/** The moments that a chart shows: a minute. */
const MOMENTS = 120;

const histories = new Map();

function remember(keyspace) {
  const history = histories.get(keyspace.name) ?? [];
  history.push(keyspace.commits_per_second);
  if (history.length > MOMENTS) history.shift();
  histories.set(keyspace.name, history);
  return history;
}

function paths(history) {
  const highest = Math.max(1, ...history) * 1.08;
  const x = (at) => (100 * (MOMENTS - history.length + at)) / (MOMENTS - 1);
  const y = (value) => 30 - (29 * value) / highest;
  const line = history.map((value, at) => `${at === 0 ? "M" : "L"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`).join("");
  return [line, `${line}L100 30L${x(0).toFixed(2)} 30Z`];
}

const KINDS = {
  normal: ["●", "serves", ""],
  "view-changing": ["◐", "changes views", "warn"],
  recovering: ["◔", "recovers", "warn"],
  retired: ["○", "is retired", "warn"],
  lost: ["✕", "is lost", "bad"],
  refused: ["✕", "is refused", "bad"],
  missing: ["?", "is missing", "bad"],
  unreachable: ["✕", "cannot be reached", "bad"],
};

function seatOf(replica) {
  const [glyph, word, kind] = KINDS[replica.state] ?? ["?", replica.state, "warn"];
  if (replica.state !== "normal") return [glyph, word, kind];
  if (replica.lags) return ["▽", `lags: ${replica.lags}`, "warn"];
  if (replica.leads) return ["★", "leads", "leads"];
  return [glyph, word, kind];
}

function showShards(table, keyspace) {
  const nodes = [...new Set(keyspace.shards.flatMap((shard) => shard.replicas.map((replica) => replica.node)))].sort((one, other) => one - other);
  const [head, body] = [table.tHead, table.tBodies[0]];
  if (head.dataset.key !== nodes.join()) {
    head.dataset.key = nodes.join();
    head.replaceChildren(h("tr", {}, h("th", { scope: "col" }, "shard"), nodes.map((node) => h("th", { scope: "col" }, `n${node}`))));
    body.replaceChildren();
    body.known?.clear();
  }
  list(body, keyspace.shards, (shard) => shard.shard, (shard) => {
    const cells = new Map(nodes.map((node) => [node, h("td")]));
    return {
      element: h("tr", {}, h("th", { scope: "row" }, shard.shard), ...cells.values()),
      update(shard) {
        for (const [node, cell] of cells) {
          const replica = shard.replicas.find((replica) => replica.node === node);
          const [glyph, word, kind] = replica ? seatOf(replica) : ["", "", ""];
          const key = glyph + word;
          if (cell.dataset.key === key) continue;
          cell.dataset.key = key;
          cell.replaceChildren(...(replica ? [h("span", { class: `seat ${kind}`, title: `the replica on node ${node} ${word}` }, h("span", { "aria-hidden": "true" }, glyph), h("span", { class: "visually-hidden" }, word))] : []));
        }
      },
    };
  });
}

function verdictOf(keyspace) {
  const of = (verdict) => keyspace.shards.filter((shard) => shard.verdict === verdict).length;
  if (of("lost") + of("not served") > 0) return ["✕ not all served", "bad"];
  if (of("served by a majority") > 0) return ["▲ by a majority", "warn"];
  return ["● served", ""];
}

function card(keyspace) {
  const figure = (name) => {
    const value = h("dd");
    return [value, h("div", {}, h("dt", {}, name), value)];
  };
  const [p50, p50Part] = figure("p50");
  const [p99, p99Part] = figure("p99");
  const [aborted, abortedPart] = figure("aborted");
  const [fast, fastPart] = figure("fast path");
  const [line, area] = [s("path", { class: "line" }), s("path", { class: "area" })];
  const chart = s("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const [big, verdict, hot] = [h("span"), h("span", { class: "verdict" }), h("div", { class: "hot" })];
  const table = h("table", { class: "shards" }, h("caption", { class: "visually-hidden" }, `replicas of ${keyspace.name}`), h("thead"), h("tbody"));
  const more = h("p", { class: "legend" });
  const kind = [keyspace.isolation, keyspace.durability, keyspace.application].filter(Boolean).join(" · ");
  const element = h("article", { class: keyspace.name.startsWith("_") ? "card internal" : "card", "data-keyspace": keyspace.name },
    h("div", { class: "title" }, h("h3", {}, keyspace.name), h("span", { class: "soft" }, kind), verdict),
    h("div", { class: "rate" }, h("p", { class: "big" }, big, h("span", { class: "unit" }, "commits/s")), chart),
    h("dl", { class: "figures" }, p50Part, p99Part, abortedPart, fastPart), table, more, hot);
  return {
    element,
    update(keyspace) {
      const [word, kind] = verdictOf(keyspace);
      text(verdict, word);
      set(verdict, "class", `verdict ${kind}`);
      text(big, count(keyspace.commits_per_second));
      const [linePath, areaPath] = paths(remember(keyspace));
      set(line, "d", linePath);
      set(area, "d", areaPath);
      text(p50, duration(keyspace.p50_seconds));
      text(p99, duration(keyspace.p99_seconds));
      const all = keyspace.commits_per_second + keyspace.aborts_per_second;
      text(aborted, all > 0 ? percent(keyspace.aborts_per_second / all) : "–");
      text(fast, percent(keyspace.fast_share));
      showShards(table, keyspace);
      const left = keyspace.shards_total - keyspace.shards.length;
      text(more, left > 0 ? `and ${left} more shards` : "");
      showHot(hot, keyspace.hot_keys);
    },
  };
}

/** Hot keys change places all the time: they are shown anew no more often, in milliseconds. */
const HOT_PAUSE = 5000;

function showHot(place, keys) {
  const key = JSON.stringify(keys.map((hot) => [hot.key, hot.hindered > 0]));
  const isEmpty = place.childElementCount === 0;
  if (place.dataset.key === key || (!isEmpty && keys.length > 0 && Date.now() - place.shownAt < HOT_PAUSE)) return;
  place.dataset.key = key;
  place.shownAt = Date.now();
  const one = (hot) => h("span", { class: `key mono ${hot.hindered > 0 ? "contended" : ""}`, title: `${hot.writers} recent writers, ${hot.hindered} in each other’s way` }, hot.hindered > 0 ? `▲ ${hot.key}` : hot.key, hot.hindered > 0 ? h("span", { class: "visually-hidden" }, " contended") : null);
  place.replaceChildren(...(keys.length > 0 ? [h("span", { class: "soft" }, "hot keys"), ...keys.slice(0, 8).map(one)] : []));
}

export function showKeyspaces(snapshot) {
  const isInternal = (keyspace) => keyspace.name.startsWith("_");
  const ordered = [...snapshot.keyspaces].sort((one, other) => isInternal(one) - isInternal(other));
  list($("keyspaces-list"), ordered, (keyspace) => keyspace.name, card);
}

export function showSlow(snapshot) {
  const place = $("slow-list");
  const slow = snapshot.slow_transactions;
  // Their age changes all the time, and matters little: it is told by the minute.
  const key = JSON.stringify(slow.map((it) => [it.transaction, Math.floor(it.ended_seconds_ago / 10)]));
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  if (slow.length === 0) return place.replaceChildren(h("p", { class: "soft" }, "None that any node remembers."));
  const cell = (label, ...content) => h("td", { "data-label": label }, ...content);
  const row = (it) => {
    const why = [it.slow_path ? "slow path" : null, it.hindered ? "another one was in its way" : null].filter(Boolean);
    return h("tr", {}, cell("Took", h("b", {}, duration(it.seconds))), cell("Keyspace", it.keyspace), cell("Keys", h("span", { class: "mono" }, it.keys.join(", ") || "–")), cell("End", it.committed ? "committed" : "aborted"), cell("Why", why.join(", ") || "–"), cell("Ago", span(it.ended_seconds_ago)), cell("Transaction", h("span", { class: "mono soft" }, it.transaction)));
  };
  const head = ["Took", "Keyspace", "Keys", "End", "Why", "Ago", "Transaction"].map((name) => h("th", { scope: "col" }, name));
  place.replaceChildren(h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, slow.map(row)))));
}
