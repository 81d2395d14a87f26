// What is wrong with a namespace, in a word, for every view: a row is green only where nothing is.

const LOST = { word: "data loss", tone: "bad", settled: "upstream may lack it" };

// troubleOf is a word for a namespace, how bad that is, and what its settled entries are then; null if all is well.
// `watch` is the state of the upstream's watch, which may have lost everything.
export function troubleOf(n, watch) {
  if (watch?.lost) return LOST;
  if (!n) return null;
  if (n.data_loss) return LOST;
  if (n.not_opened) return { word: "does not open", tone: "bad", settled: "settled, not all here opens", closed: n.not_opened };
  if (n.paused) return { word: "writes refused", tone: "bad", settled: "settled, writes refused", pending: "refused by upstream, waits" };
  if (n.reads_refused) return { word: "reads refused", tone: "bad", settled: "settled, reads refused" };
  if (n.full) return { word: "full", tone: "warn" };
  return null;
}

// stateOf is the state of an entry in words, and the colour of its dot.
export function stateOf({ key, state }, trouble) {
  if (trouble?.closed?.startsWith(`${key}: `)) return { text: "does not open", tone: "bad" };
  if (state === "settled" && trouble?.settled) return { text: trouble.settled, tone: trouble.tone === "bad" && trouble !== LOST ? "warn" : trouble.tone };
  if (state === "pending" && trouble?.pending) return { text: trouble.pending, tone: "bad" };
  return { text: state, tone: state };
}

// CORNER has a word for each finding that is about upstream, or about what goes there. Any other level has its own.
const CORNER = {
  upstream_down: "down", upstream_degraded: "degraded", no_bucket: "no bucket", unwatched: "not watched",
  upstream_lost: "data loss", data_loss: "data loss",
  writes_paused: "refuses writes", reads_refused: "refuses reads", not_opened: "does not open",
  dead_letters: "dead letters", namespace_full: "full", namespace_nearly_full: "nearly full",
  quota_used_up: "quota used up", quota_delays: "short quota", throttled: "throttles", failing: "fails",
  disk_failed: "disk failed", writes_refused: "takes no writes", stopping: "stopping",
};

// cornerOf is the daemon's state in a word, with the level that the sentence on top has.
export function cornerOf({ summary, upstream: { state, reason, last_success_at: answered, watch } }) {
  const known = answered || reason || watch?.caught_up ? state : "not asked yet"; // before the first answer, nobody knows
  const word = CORNER[summary?.kind] ?? { warning: "needs attention", critical: "needs attention" }[summary?.level] ?? known;
  return { word, level: word === "not asked yet" ? "unknown" : state === "down" ? "critical" : summary?.level ?? "unknown" };
}
