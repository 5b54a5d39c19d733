// A prompt: each line is one transaction, carried out by the door.

import { $, h } from "./dom.js";
import { duration, shown } from "./format.js";
import { chosen, mayWrite } from "./browser.js";
import { batch, trace } from "./door.js";
import { parse } from "./statement.js";
import { drawTrace } from "./trace.js";

/** Lines of the log that are kept. */
const LINES_MAX = 200;

const [lines, typed] = [[], { at: 0 }];

function say(words, kind = "") {
  const log = $("prompt-log");
  log.append(h("div", { class: kind }, words));
  while (log.children.length > LINES_MAX) log.firstElementChild.remove();
  log.scrollTop = log.scrollHeight;
}

/** The answer of a step, as people read it. */
function answerLines(answer) {
  if ("value" in answer) return [answer.value === null ? "(absent)" : shown(answer.value)];
  if ("number" in answer) return [String(answer.number)];
  if ("length" in answer) return [`${answer.length} bytes`];
  if ("entries" in answer) {
    const found = answer.entries.map(({ key, value }) => `${shown(key)}  ${shown(value)}`);
    if (answer.next !== null) found.push(`… goes on from ${shown(answer.next)}`);
    return found.length > 0 ? found : ["(nothing)"];
  }
  return ["ok"];
}

async function run(isTraced) {
  const field = $("prompt-line");
  const line = field.value.trim();
  if (line === "") return;
  const keyspace = chosen();
  say(`${keyspace}  ${line}`, "asked");
  lines.push(line);
  typed.at = lines.length;
  field.value = "";
  try {
    if (!keyspace) throw new Error("there is no keyspace yet");
    const { steps, writes } = parse(line);
    if (writes && !mayWrite()) throw new Error("this writes: “Allow writing” above allows it");
    const begun = performance.now();
    const answer = await (isTraced ? trace : batch)(keyspace, steps);
    const took = (performance.now() - begun) / 1000;
    answer.answers.flatMap(answerLines).forEach((words) => say(words));
    say(`${duration(took)}`, "took");
    if (isTraced) drawTrace($("trace"), answer.trace);
  } catch (error) {
    say(error.message, "wrong");
  }
}

export function startPrompt() {
  $("prompt-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(false);
  });
  $("prompt-trace").addEventListener("click", () => run(true));
  $("prompt-line").addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || lines.length === 0) return;
    event.preventDefault();
    typed.at = Math.min(lines.length, Math.max(0, typed.at + step));
    event.target.value = lines[typed.at] ?? "";
  });
}
