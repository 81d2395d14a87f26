// The newest writes and how far each has come. A write is known by its seq.

import { instant, RESTORED } from "./format.js";

const LIMIT = 200;

// RANKS order the states of a write: an event that comes late does not take one back.
const RANKS = { pending: 0, sent: 1, settled: 2, superseded: 2, dead: 2, dropped: 2 };

// began is when a write began to wait. One that was imported, or that a restore has made, waits since it is pending.
const began = (w) => (w.since > w.written_at ? instant(w.since) : w.written_at === RESTORED ? null : instant(w.written_at));

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

  // add takes in pending writes, or receipts. An event may already have told more of one.
  add(writes) {
    for (const w of writes.filter((one) => !this.#bySeq.has(one.seq))) {
      this.#bySeq.set(w.seq, {
        seq: w.seq, namespace: w.namespace, key: w.key, op: w.op, bytes: w.bytes, author: w.author,
        state: w.state ?? (w.attempts > 0 ? "sent" : "pending"), began: began(w), ended: instant(w.settled_at),
        reason: w.reason ?? w.last_error, by: w.by ?? null,
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
