// Statements of the prompt, as steps of a batch: the words of `quorate shell`, as far as one transaction carries them out.

/** Splits a line into statements of words; quotes keep spaces and semicolons. */
export function split(line) {
  const statements = [[]];
  let [word, quote] = [null, null];
  const end = () => {
    if (word !== null) statements.at(-1).push(word);
    word = null;
  };
  for (const character of line) {
    if (quote) {
      if (character === quote) quote = null;
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      word ??= "";
    } else if (character === ";") {
      end();
      statements.push([]);
    } else if (/\s/.test(character)) end();
    else word = (word ?? "") + character;
  }
  if (quote) throw new Error(`a quotation mark ${quote} is not closed`);
  end();
  return statements.filter((words) => words.length > 0);
}

const whole = (text) => {
  if (!/^-?\d{1,19}$/.test(text)) throw new Error(`${text} is no whole number`);
  return Number(text);
};

const FORMS = {
  get: [1, Infinity, (...keys) => keys.map((key) => ({ read: { key } })), "get KEY …"],
  put: [2, 2, (key, value) => [{ put: { key, value } }], "put KEY VALUE"],
  delete: [1, 1, (key) => [{ delete: { key } }], "delete KEY"],
  increment: [1, 2, (key, by = "1") => [{ increment: { key, by: whole(by) } }], "increment KEY [N]"],
  append: [2, 2, (key, value) => [{ append: { key, value } }], "append KEY TEXT"],
  scan: [0, 2, (from, to) => [{ scan: { limit: 100, ...(from ? { from } : {}), ...(to ? { to } : {}) } }], "scan [FROM [TO]]"],
};
const ALIASES = { set: "put", del: "delete", rm: "delete", incr: "increment" };

/** The steps of a line, and whether any of them writes. `begin` and `commit` may stand around them: a line is one transaction anyway. */
export function parse(line) {
  const steps = [];
  for (const [given, ...words] of split(line)) {
    const name = ALIASES[given.toLowerCase()] ?? given.toLowerCase();
    if (name === "begin" || name === "commit") continue;
    const form = FORMS[name];
    if (!form) throw new Error(`there is no statement “${given}” here: ${Object.keys(FORMS).join(", ")}`);
    const [least, most, make, usage] = form;
    if (words.length < least || words.length > most) throw new Error(`write ${usage}`);
    steps.push(...make(...words));
  }
  if (steps.length === 0) throw new Error("write a statement, such as get alice");
  return { steps, writes: steps.some((step) => !step.read && !step.scan) };
}
