// One transaction as a sequence diagram: the coordinator, the replicas that it spoke to, and their messages with their times.

import { $, h, s } from "./dom.js";
import { duration } from "./format.js";

const [TOP, ROW, LEFT, LANE] = [58, 26, 64, 150];

/** Lines that name a point of time are at least so far apart. */
function heights(events) {
  return events.map((_, at) => TOP + 18 + at * ROW);
}

function arrow(from, to, y, isBack) {
  const [step, kind] = [to > from ? -1 : 1, isBack ? " back" : ""];
  return [
    s("line", { class: `said${kind}`, x1: from, y1: y, x2: to + step * 6, y2: y }),
    s("path", { class: `tip${kind}`, d: `M${to} ${y}l${step * 8} -4v8z` }),
  ];
}

/** Draws what `quorate trace --json` tells, too. */
export function drawTrace(place, trace) {
  const lanes = trace.participants.length;
  const width = LEFT + LANE * (lanes + 0.5) + 40;
  const ys = heights(trace.events);
  const height = TOP + ROW * trace.events.length + 34;
  const x = (lane) => LEFT + 40 + LANE * lane;
  const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `sequence of ${trace.events.length} messages` });
  const life = (lane, name, where) => picture.append(s("line", { class: "life", x1: x(lane), x2: x(lane), y1: TOP - 12, y2: height - 12 }), s("text", { class: "life-name", x: x(lane), y: 18 }, name), s("text", { class: "life-where", x: x(lane), y: 34 }, where));
  life(0, "coordinator", trace.coordinator);
  trace.participants.forEach((it, at) => life(at + 1, it.replica, `node ${it.node}, ${it.site}`));
  trace.events.forEach((event, at) => {
    const y = ys[at];
    picture.append(s("text", { class: "tick", x: LEFT - 8, y: y + 3 }, duration(event.at_seconds)));
    const label = event.detail ? `${event.name} ${event.detail}` : event.name;
    if (event.participant === null) {
      picture.append(s("circle", { class: "tip", cx: x(0), cy: y, r: 3.5 }), s("text", { class: "said-name", x: x(0) + 9, y: y + 4 }, label));
      return;
    }
    const lane = x(event.participant + 1);
    const isBack = event.kind === "received";
    picture.append(...(isBack ? arrow(lane, x(0), y, true) : arrow(x(0), lane, y, false)));
    picture.append(s("text", { class: "said-name", x: lane + 9, y: y + 4 }, label));
  });
  $("traced").hidden = false;
  const end = `${trace.outcome}, after ${duration(trace.took_seconds)}`;
  place.replaceChildren(h("figure", {}, h("figcaption", {}, `${end}. Times are those of the coordinator: when it sent, and when it received.`), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Sequence diagram" }, picture)));
}
