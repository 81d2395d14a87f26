// The page: its header, the sentence on top, and the view that the address names. A view's name and
// what it shows stand after the # of the address, so that going back and links work.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { Daemon } from "./daemon.js";
import { DeadLetters } from "./deadletters.js";
import { number } from "./format.js";
import { Memory } from "./memory.js";
import { Overview } from "./overview.js";
import { wireKey } from "./keys.js";
import { Sentence } from "./sentence.js";
import { cornerOf } from "./states.js";

const VIEWS = [
  ["", "Overview", Overview],
  ["memory", "Memory", Memory],
  ["dead-letters", "Dead letters", DeadLetters],
];

const daemon = new Daemon();

// place is what the address names: the view, and the parts that follow it.
const place = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);

function usePlace() {
  const [parts, setParts] = useState(place);
  useEffect(() => {
    const moved = () => setParts(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return parts;
}

function useDaemon() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const stop = daemon.observe(() => redraw((n) => n + 1));
    daemon.start();
    return stop;
  }, []);
}

// findBySlash moves the focus to the view's search at a slash, unless somebody is typing.
function findBySlash(event) {
  if (event.key !== "/" || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
}

// hostOf is an upstream's name: its URL without what all have.
const hostOf = (url) => url.replace(/^\w+:\/\//, "").replace(/\/$/, "");

function Header({ view, status }) {
  const { open_dead_letters: open, upstream } = status ?? {};
  const corner = upstream && cornerOf(status);
  return html`
    <header class=${`top ${daemon.connected ? "live" : ""}`}>
      <a class="brand" href="#/"><span class="mark" aria-hidden="true"></span>botwired</a>
      <nav aria-label="Views">
        ${VIEWS.map(([name, title]) => html`
          <a key=${name} href=${`#/${name}`} aria-current=${name === view ? "page" : null}>
            ${title}${name === "dead-letters" && open > 0 && html`
              <span class="badge open">${number(open)}<span class="hidden"> open</span></span>`}
          </a>`)}
      </nav>
      ${daemon.connected === false && html`<span class="state" title="No events: the page asks again"><i aria-hidden="true"></i>not live</span>`}
      ${upstream && !daemon.error && html`
        <span class=${`state ${corner.level}`} title=${upstream.url}>
          <b>${hostOf(upstream.url)}</b><i aria-hidden="true"></i>${corner.word}
        </span>`}
    </header>`;
}

function App() {
  useDaemon();
  const [view, namespace, key] = usePlace();
  const { status } = daemon;
  const [, title, View] = VIEWS.find(([name]) => name === view) ?? VIEWS[0];
  useEffect(() => {
    document.title = view ? `${title} · botwired` : "botwired";
  }, [view]);
  useEffect(() => {
    document.addEventListener("keydown", findBySlash);
    return () => document.removeEventListener("keydown", findBySlash);
  }, []);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <${Header} view=${view} status=${status} />
    <main id="main" tabindex="-1">
      <${Sentence} status=${status} error=${daemon.error} small=${View !== Overview} again=${daemon.refresh} />
      <${View} daemon=${daemon} path=${[namespace, key && wireKey(key)]} />
    </main>
    <footer class="bottom">
      <span>botwired ${status?.version}</span>
      ${status?.upstream && html`<span>upstream ${status.upstream.url}</span>`}
      ${status?.data_dir && html`<span>data in ${status.data_dir}</span>`}
      <a href="openapi.json">OpenAPI</a>
    </footer>`;
}

render(html`<${App} />`, document.getElementById("app"));
