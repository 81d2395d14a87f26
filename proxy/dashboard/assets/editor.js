// Editing an entry, and making one. A write replaces only what the page has shown: if somebody has
// written meanwhile, the daemon refuses it (412), and the page shows what is there now beside the text.

import { html, useState } from "./vendor/htm-preact.js";
import { readEntry, unreachable, writeEntry } from "./api.js";
import { Compare } from "./compare.js";
import { number } from "./format.js";
import { parsed } from "./json.js";
import { isKey, wireKey } from "./keys.js";
import { Dialog, entryName, Problem, useTask } from "./ui.js";

const LONGEST = 100_000; // code points: BotWire takes no longer value

function Size({ text }) {
  const length = [...text].length;
  const looksLikeJson = /^\s*[[{]/.test(text);
  return html`
    <p class="note" aria-live="polite">
      ${number(length)} of ${number(LONGEST)} characters${length > LONGEST && ": too long"}
      ${looksLikeJson && (parsed(text) === undefined ? " · no valid JSON" : " · valid JSON")}
    </p>`;
}

// Overtaken shows what somebody else has written meanwhile.
const Overtaken = ({ mine, theirs }) => html`
  <div class="problem" role="alert">
    <p>${theirs ? "Somebody has written this entry meanwhile." : "Somebody has deleted this entry meanwhile."} Nothing is lost: your text is below. Save it to replace what is there now.</p>
  </div>
  ${theirs && html`<${Compare} left=${["Now there", theirs.value]} right=${["Your text", mine]} />`}`;

// useSaving writes a text over an entry that the page has shown; null is none.
function useSaving(namespace, shown, saved) {
  const [base, setBase] = useState(shown);
  const [overtaken, setOvertaken] = useState(false);
  const [busy, error, save] = useTask(async (key, text) => {
    try {
      await writeEntry(namespace, key, text, base);
    } catch (refusal) {
      if (refusal.status !== 412) throw refusal;
      setBase(await readEntry(namespace, key));
      setOvertaken(true);
      return false;
    }
    return true;
  }, (done) => done && saved());
  return { base, overtaken, busy, error, save };
}

export function Editor({ entry, close, saved }) {
  const [text, setText] = useState(entry.value);
  const { base, overtaken, busy, error, save } = useSaving(entry.namespace, entry, saved);
  const submit = (event) => {
    event.preventDefault();
    save(entry.key, text);
  };
  return html`
    <${Dialog} title=${`Edit ${entryName(entry)}`} close=${close} wide=${true}>
      <form onSubmit=${submit}>
        ${overtaken && html`<${Overtaken} mine=${text} theirs=${base} />`}
        <textarea aria-label="Value" rows="16" spellcheck=${false} autofocus value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
        <${Size} text=${text} />
        <${Problem} error=${error} />
        <footer>
          <button type="button" onClick=${close}>Cancel</button>
          <button type="submit" class="primary" disabled=${busy || (text === base?.value && !overtaken)}>${overtaken ? "Replace what is there" : "Save"}</button>
        </footer>
      </form>
    <//>`;
}

export function NewEntry({ namespace, close }) {
  const [name, setName] = useState("");
  const key = wireKey(name);
  const [text, setText] = useState("");
  const { base, overtaken, busy, error, save } = useSaving(namespace, null, () => {
    close();
    location.hash = `#/memory/${namespace}/${key}`;
  });
  const good = isKey(key) && !unreachable(key);
  const submit = (event) => {
    event.preventDefault();
    if (good) save(key, text);
  };
  return html`
    <${Dialog} title=${`New entry in ${namespace}`} close=${close} wide=${true}>
      <form onSubmit=${submit}>
        <label>Key<input type="text" autofocus required maxlength="128" spellcheck=${false} autocapitalize="off" value=${name}
          readonly=${overtaken} onInput=${(event) => setName(event.target.value)} /></label>
        ${name && !good && html`<p class="note">A key has at most 128 characters, of which each but letters, digits, hyphens and underscores counts as three or more. “.” and “..” are none.</p>`}
        ${good && key !== name && html`<p class="note break">In BotWire it is <code>${key}</code>, as the Python package names it.</p>`}
        ${overtaken && html`<${Overtaken} mine=${text} theirs=${base} />`}
        <label>Value<textarea rows="10" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
        <${Size} text=${text} />
        <${Problem} error=${error} />
        <footer>
          <button type="button" onClick=${close}>Cancel</button>
          <button type="submit" class="primary" disabled=${busy || !good}>${overtaken ? "Replace what is there" : "Write"}</button>
        </footer>
      </form>
    <//>`;
}
