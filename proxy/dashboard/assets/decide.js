// A dead letter's value beside what is there now: a person keeps one of them. To keep the dead
// letter's is an ordinary write, on the condition that it replaces what the page has shown.

import { html } from "./vendor/htm-preact.js";
import { deleteEntry, get, readEntry, remove, unreachable, writeEntry } from "./api.js";
import { Compare } from "./compare.js";
import { duration, moment } from "./format.js";
import { Problem, useLoaded, useTask } from "./ui.js";

async function read({ id, namespace, key }, signal) {
  const [letter, entry] = await Promise.all([
    get(`dead-letters/${id}`, {}, { signal }),
    unreachable(key) ? null : readEntry(namespace, key, signal),
  ]);
  return { letter, entry };
}

// bringBack makes the dead letter's state the entry's, if the entry is still as it was shown.
async function bringBack({ letter, entry }) {
  const { namespace, key } = letter;
  if (letter.value != null) await writeEntry(namespace, key, letter.value, entry);
  else if (entry) await deleteEntry(namespace, key, entry);
  await remove(`dead-letters/${letter.id}`);
}

// later says by how much the winner of a conflict is later, if that is known.
export function later({ winner, written_at: at }) {
  return winner?.written_at > at ? `${duration(winner.written_at - at)} later` : "";
}

const whose = (host) => (host === "this" ? "this host's" : "another host's");

// nowOf says what is there now, and whose it is as far as that is known.
function nowOf({ letter, entry }) {
  const winner = letter.winner;
  const same = winner && (winner.value ?? null) === (entry?.value ?? null);
  return same ? [whose(winner.host), moment(winner.written_at), later(letter)].filter(Boolean).join(", ") : winner ? "changed since the conflict" : "";
}

export function Decide({ letter, decided }) {
  const { value: both, error, again } = useLoaded((signal) => read(letter, signal), [letter.id]);
  const [keeping, keepError, keep] = useTask(() => remove(`dead-letters/${letter.id}`), decided);
  const [bringing, bringError, bring] = useTask(async () => {
    try {
      await bringBack(both);
    } catch (refusal) {
      if (refusal.status !== 412) throw refusal;
      again();
      throw new Error("Somebody has written the entry since it was shown here. Now it shows what is there: decide again.");
    }
  }, decided);
  if (!both) return html`<${Problem} error=${error} />`;
  const busy = keeping || bringing;
  const left = html`<button type="button" disabled=${busy || unreachable(letter.key)} onClick=${() => bring()}>Keep this one</button>`;
  const right = html`<button type="button" disabled=${busy} onClick=${() => keep()}>Keep this one</button>`;
  return html`
    <div class="decide">
      <${Compare}
        left=${["Dead letter", both.letter.value, `${whose(letter.host)}, ${moment(letter.written_at)}`, left]}
        right=${["There now", both.entry?.value ?? null, nowOf(both), right]} />
      <${Problem} error=${keepError ?? bringError} />
    </div>`;
}
