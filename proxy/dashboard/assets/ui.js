// Small parts that every view uses.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { shownKey } from "./keys.js";

// Problem shows why something could not be had.
export const Problem = ({ error }) => error && html`<p class="problem" role="alert">${error.message}</p>`;

export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;

// EntryName is an entry as a person knows it.
export const EntryName = ({ of: { namespace, key } }) => html`<span class="space">${namespace}</span><span class="slash">/</span><span class="key">${shownKey(key)}</span>`;

export const entryName = ({ namespace, key }) => `${namespace}/${shownKey(key)}`;

// Command is one for a terminal.
export const Command = ({ text }) => html`<span class="inline-command"><code>${text}</code><${CopyButton} text=${text} what=${text} /></span>`;

// Segments choose one of several views of the same thing.
export const Segments = ({ label, options, chosen, choose }) => html`
  <div class="segments" role="group" aria-label=${label}>
    ${options.map(([value, name]) => html`
      <button key=${value} type="button" aria-pressed=${value === chosen} onClick=${() => choose(value)}>${name}</button>`)}
  </div>`;

export function CopyButton({ text, label = "Copy", what = null, className = "" }) {
  const [said, say] = useState("");
  useEffect(() => {
    const timer = said && setTimeout(() => say(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("The browser does not let this page copy");
    }
  };
  return html`<button type="button" class=${className} aria-label=${what && !said ? `${label} ${what}` : null} onClick=${copy}><span aria-live="polite">${said || label}</span></button>`;
}

// Dialog is modal while it is shown: Escape closes it, and the focus goes back to where it was.
export function Dialog({ title, close, children, wide = false }) {
  const ref = useRef();
  useEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  const outside = (event) => event.target === ref.current && close();
  return html`
    <dialog ref=${ref} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${cancel} onMouseDown=${outside}>
      <div class="dialog">
        <header><h2>${title}</h2><button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button></header>
        ${children}
      </div>
    </dialog>`;
}

// Confirm asks before something that cannot be undone, and shows why it failed.
export function Confirm({ title, action, run, close, children }) {
  const [busy, error, go] = useTask(run, close);
  return html`
    <${Dialog} title=${title} close=${close}>
      ${children}
      <${Problem} error=${error} />
      <footer>
        <button type="button" onClick=${close}>Cancel</button>
        <button type="button" class="danger" disabled=${busy} onClick=${go}>${busy ? "One moment…" : action}</button>
      </footer>
    <//>`;
}

// useTask runs something that takes a while: whether it does, why it failed, and how to begin.
export function useTask(run, then) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const go = async (...args) => {
    setBusy(true);
    setError(null);
    try {
      const result = await run(...args);
      setBusy(false);
      then?.(result);
    } catch (failure) {
      setBusy(false);
      setError(failure);
    }
  };
  return [busy, error, go, setError];
}

// useLoaded reads something when its inputs change, and again on demand. A newer question ends an
// older one. The page shows the last answer until the next one is there, unless the subject is another one.
export function useLoaded(read, inputs) {
  const [state, setState] = useState({ value: undefined, error: null, of: "" });
  const [turn, setTurn] = useState(0);
  const subject = JSON.stringify(inputs);
  useEffect(() => {
    const ending = new AbortController();
    const take = (value, error) => !ending.signal.aborted && setState({ value, error, of: subject });
    read(ending.signal).then((value) => take(value, null), (error) => take(undefined, error));
    return () => ending.abort();
  }, [subject, turn]);
  const current = state.of === subject;
  return { value: current ? state.value : undefined, error: current ? state.error : null, again: () => setTurn((n) => n + 1) };
}

// REREAD_AFTER bounds how often the page reads again what changes often, in milliseconds.
export const REREAD_AFTER = 1000;

// useChanges calls a function after writes to an entry, or without a key to a namespace: the first time at once.
export function useChanges(daemon, namespace, key, changed) {
  useEffect(() => {
    let timer = 0;
    let due = 0;
    const stop = daemon.listen((name, data) => {
      const concerns = data.namespace === namespace && (key === null || data.key === key) && name !== "sent";
      if (timer || (name !== "reset" && !concerns)) return;
      timer = setTimeout(() => {
        timer = 0;
        due = Date.now() + REREAD_AFTER;
        changed();
      }, Math.max(20, due - Date.now()));
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [namespace, key]);
}

// useSettled is a value that has not changed for a moment: what somebody types, at a pause.
export function useSettled(value, wait = 150) {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), wait);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

// download has the browser save a text as a file.
export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
