// Requests of the page to the door, in its JSON.

/** An answer that is a problem (RFC 9457). */
export class Problem extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title ?? "the door names no reason");
    this.problem = problem;
  }
}

async function ask(method, address, body) {
  const options = { method, headers: { accept: "application/json" } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Problem({ detail: "the node does not answer" });
  }
  const isJson = /json/.test(response.headers.get("content-type") ?? "");
  const answer = isJson ? await response.json() : null;
  if (!response.ok) throw new Problem(answer ?? { detail: `status ${response.status}` });
  return answer;
}

const keyspacePath = (keyspace) => `/v1/keyspaces/${encodeURIComponent(keyspace)}`;

/** The keys of a keyspace that begin with a text, a page at a time; `next` of the answer is the address of the next one. */
export function scan(keyspace, { prefix = "", from, to, limit = 50 } = {}) {
  const query = new URLSearchParams({ limit });
  if (prefix) query.set("prefix", prefix);
  if (from) query.set("from", from);
  if (to) query.set("to", to);
  // In an address a plus sign stands for itself.
  return ask("GET", `${keyspacePath(keyspace)}/keys?${query.toString().replaceAll("+", "%20")}`);
}

export const page = (address) => ask("GET", address);

/** Steps in their order, as one transaction. */
export const batch = (keyspace, steps) => ask("POST", `${keyspacePath(keyspace)}/batch`, { steps });

/** Steps as a transaction whose messages are told. */
export const trace = (keyspace, steps) => ask("POST", `${keyspacePath(keyspace)}/trace`, { steps });
