// The nodes as a table; on narrow screens each row is a block.

import { $, h, list, set, text } from "./dom.js";
import { bytes, count, duration, span } from "./format.js";

function row() {
  const cell = (label, kind = "") => h("td", { class: kind, "data-label": label });
  const cells = {
    word: h("span", { class: "word" }),
    replicas: cell("Replicas"),
    way: cell("Round trip", "n"),
    processors: cell("Processors", "n"),
    messages: cell("Messages/s", "n"),
    network: cell("Network/s", "n"),
    log: cell("Log/s", "n"),
    disk: cell("Disk free", "n"),
    up: cell("Up", "n"),
  };
  const [name, where] = [h("b"), h("span", { class: "soft" })];
  const element = h("tr", {},
    h("th", { scope: "row" }, name, " ", where), h("td", { "data-label": "State" }, cells.word),
    cells.replicas, cells.way, cells.processors, cells.messages, cells.network, cells.log, cells.disk, cells.up);
  return { element, name, where, ...cells };
}

function stateOf(node) {
  if (!node.up) return ["✕ down", "bad"];
  if (node.disk_is_low) return ["▲ disk low", "warn"];
  if (node.clock_error_seconds !== null) return ["▲ clock off", "warn"];
  if (node.serving < node.replicas) return ["▲ not all serve", "warn"];
  return ["● up", ""];
}

export function showNodes(snapshot) {
  const body = $("nodes-table").tBodies[0];
  list(body, snapshot.nodes, (node) => node.node, (node) => {
    const parts = row();
    set(parts.element, "data-node", node.node);
    return {
      element: parts.element,
      update(node) {
        text(parts.name, `node ${node.node}`);
        text(parts.where, `${snapshot.sites[node.site]?.name ?? "?"} · ${node.address}`);
        const [word, kind] = stateOf(node);
        text(parts.word, word);
        set(parts.word, "class", `word ${kind}`);
        set(parts.element, "data-up", String(node.up));
        const leads = node.leading > 0 ? `, leads ${node.leading}` : "";
        text(parts.replicas, node.up ? `${node.serving}/${node.replicas} serve${leads}` : node.reason);
        text(parts.way, node.up ? duration(node.answered_in) : "–");
        text(parts.processors, node.processors === null ? "–" : node.processors.toFixed(2));
        text(parts.messages, count(node.messages_per_second));
        text(parts.network, bytes(node.bytes_per_second));
        text(parts.log, bytes(node.log_bytes_per_second));
        text(parts.disk, bytes(node.free_bytes));
        text(parts.up, node.up ? span(node.up_seconds) : "–");
      },
    };
  });
}
