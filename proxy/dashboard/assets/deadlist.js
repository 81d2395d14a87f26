// The list of dead letters, page by page.

import { get } from "./api.js";
import { download } from "./ui.js";

export const PAGE = 100;

// LONG_PAGE is for going through all of them.
const LONG_PAGE = 1000;

export const pageOf = async (after, limit, signal) => (await get("dead-letters", { after, limit }, { signal })).dead_letters;

// idsOf goes through all pages, and returns the ids of those that fit.
export async function idsOf({ kind, namespace }) {
  const ids = [];
  for (let after = null; ;) {
    const rows = await pageOf(after, LONG_PAGE);
    ids.push(...rows.filter((l) => (!kind || l.kind === kind) && (!namespace || l.namespace === namespace)).map((l) => l.id));
    if (rows.length < LONG_PAGE) return ids;
    after = rows.at(-1).id;
  }
}

// exportAll saves those that fit with their values, a line of JSON each.
export async function exportAll(filter) {
  const lines = [];
  for (const id of await idsOf(filter)) lines.push(JSON.stringify(await get(`dead-letters/${id}`)));
  download(`dead-letters${filter.namespace && `-${filter.namespace}`}.jsonl`, lines.map((line) => `${line}\n`).join(""));
}
