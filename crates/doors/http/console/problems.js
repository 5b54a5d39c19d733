// Problems, with the advice of docs/operations.md.

import { $, h, list, text } from "./dom.js";

const quiet = h("div", { class: "quiet" }, h("p", {}, h("strong", {}, "● Nothing to do"), "Every replica of every shard serves."));

export function showProblems(snapshot) {
  const place = $("problems-list");
  const problems = snapshot.problems;
  text($("problems-count"), problems.length > 0 ? `▲ ${problems.length}` : "");
  // Numbers in a text change all the time; the problem is the same.
  const keyOf = (problem) => `${problem.place}/${problem.text.replace(/[\d.]+/g, "#")}`;
  const unique = [...new Map(problems.map((problem) => [keyOf(problem), problem])).values()];
  const items = unique.length > 0 ? unique : [null];
  list(place, items, (problem) => (problem === null ? "" : keyOf(problem)), (problem) => {
    if (problem === null) return { element: quiet };
    const what = h("span");
    const advice = problem.advice ? [h("p", {}, problem.advice.meaning), h("p", {}, h("b", {}, "Do: "), problem.advice.action)] : [];
    const element = h("article", { class: "problem" }, h("p", {}, h("b", {}, `▲ ${problem.place}`), " ", what), ...advice);
    return { element, update: (problem) => text(what, problem.text) };
  });
}
