// A browser of keys: read only, unless the person allows more.

import { $, h } from "./dom.js";
import { shown } from "./format.js";
import { batch, page, scan } from "./door.js";

let offered = "";

/** The keyspace that is chosen. */
export const chosen = () => $("browse-keyspace").value;

export const mayWrite = () => $("may-write").checked;

/** Offers the keyspaces that there are. */
export function offerKeyspaces(snapshot) {
  const names = snapshot.keyspaces.map((keyspace) => keyspace.name).filter((name) => !name.startsWith("_"));
  if (offered === names.join("\n")) return;
  offered = names.join("\n");
  const select = $("browse-keyspace");
  const before = select.value;
  select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
  if (names.includes(before)) select.value = before;
}

function say(place, words, kind = "soft") {
  place.replaceChildren(h("p", { class: kind }, words));
}

/** The value of one key, which can be changed if that is allowed. */
function showValue(keyspace, { key, value }, pressed) {
  document.querySelectorAll("#browse-result button[aria-pressed]").forEach((button) => button.setAttribute("aria-pressed", button === pressed));
  const isText = typeof value === "string";
  const area = h("textarea", { id: "value-text", spellcheck: "false", readonly: mayWrite() && isText ? null : "" });
  area.value = isText ? value : `base64:${value.base64}`;
  const said = h("p", { class: "soft", role: "status" });
  const act = (word, steps) =>
    h("button", { type: "button", disabled: mayWrite() && isText ? null : "", onclick: async () => {
      try {
        await batch(keyspace, steps());
        said.textContent = `${word}: done`;
        await show();
      } catch (error) {
        said.textContent = error.message;
      }
    } }, word);
  $("browse-value").replaceChildren(h("div", { class: "value" },
    h("label", { for: "value-text" }, `Value of ${shown(key)}${isText ? "" : " (bytes, in base64)"}`), area,
    h("div", { class: "row" }, act("Save", () => [{ put: { key, value: area.value } }]), act("Delete", () => [{ delete: { key } }])),
    mayWrite() ? null : h("p", { class: "soft" }, "Read only: “Allow writing” above changes that."), said));
}

function entries(keyspace, list, told) {
  for (const entry of told.entries) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => showValue(keyspace, entry, button) }, h("span", {}, shown(entry.key)), h("span", { class: "soft" }, shown(entry.value)));
    list.append(h("li", {}, button));
  }
}

async function show() {
  const [place, keyspace] = [$("browse-result"), chosen()];
  if (!keyspace) return say(place, "There is no keyspace yet.");
  try {
    let told = await scan(keyspace, { prefix: $("browse-prefix").value });
    if (told.entries.length === 0) return say(place, "Nothing there.");
    const list = h("ul");
    entries(keyspace, list, told);
    const more = h("button", { type: "button", class: "more", onclick: async () => {
      try {
        told = await page(told.next);
        entries(keyspace, list, told);
        more.hidden = !told.next;
      } catch (error) {
        more.replaceWith(h("p", {}, error.message));
      }
    } }, "More");
    more.hidden = !told.next;
    place.replaceChildren(list, more);
  } catch (error) {
    say(place, error.message, "wrong");
  }
}

export function startBrowser() {
  $("browse").addEventListener("submit", (event) => {
    event.preventDefault();
    $("browse-value").replaceChildren();
    show();
  });
  $("may-write").addEventListener("change", () => $("browse-value").replaceChildren());
}
