// The newest writes and how far each has come. A write is known by its seq.

import { instant } from "./format.js";

const LIMIT = 200;

// RANKS order the states of a write: an event that comes late does not take one back.
const RANKS = { pending: 0, sent: 1, settled: 2, superseded: 2, dead: 2, dropped: 2 };

export class Writes {
  limit = LIMIT;
  #bySeq = new Map();

  // list is newest first.
  list() {
    return [...this.#bySeq.values()].sort((a, b) => b.seq - a.seq);
  }

  forget() {
    this.#bySeq.clear();
  }

  // add takes in the writes that wait. An event may already have told more of one.
  add(pending) {
    for (const p of pending.filter((one) => !this.#bySeq.has(one.seq))) {
      this.#bySeq.set(p.seq, {
        seq: p.seq, namespace: p.namespace, key: p.key, op: p.op, bytes: p.bytes, author: p.author,
        state: p.attempts > 0 ? "sent" : "pending", began: instant(p.written_at), ended: null, reason: p.last_error, by: null,
      });
    }
  }

  take(name, data) {
    const at = instant(data.at);
    const known = this.#bySeq.get(data.seq) ?? {
      seq: data.seq, namespace: data.namespace, key: data.key, op: data.op, bytes: data.bytes, author: data.author,
      state: "pending", began: name === "pending" ? at : null, ended: null, reason: "", by: null,
    };
    if (RANKS[name] < RANKS[known.state]) return;
    this.#bySeq.set(data.seq, {
      ...known, state: name, reason: data.reason ?? known.reason, by: data.by ?? known.by, ended: RANKS[name] === 2 ? at : null,
    });
    if (this.#bySeq.size > 2 * LIMIT) this.#trim();
  }

  #trim() {
    for (const write of this.list().slice(LIMIT)) this.#bySeq.delete(write.seq);
  }
}
