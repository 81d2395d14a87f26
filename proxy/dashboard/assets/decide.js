// A dead letter's value beside what is there now: a person keeps one of them. To keep the dead
// letter's is an ordinary write, on the condition that it replaces what the page has shown.

import { html } from "./vendor/htm-preact.js";
import { deleteEntry, get, readEntry, remove, unreachable, writeEntry } from "./api.js";
import { Compare } from "./compare.js";
import { moment, written } from "./format.js";
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
        left=${["Dead letter", both.letter.value, written(letter.written_at, moment), left]}
        right=${["There now", both.entry?.value ?? null, "", right]} />
      <${Problem} error=${keepError ?? bringError} />
    </div>`;
}
