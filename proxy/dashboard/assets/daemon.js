// The page's knowledge of the daemon: its status, the last hour, and the events as they come.
// A page that nobody sees asks for nothing, and holds no connection: a browser has only six for
// all its tabs.

import { address, get } from "./api.js";
import { Writes } from "./writes.js";

const STATUS_EVERY = 1000; // milliseconds
// NAMESPACES bounds how many of them the status describes: those that need attention most.
const NAMESPACES = 100;

const HISTORY_EVERY = 10_000;
const RECONNECT_AFTER = 2000;

const EARLIER = 12; // writes that are shown although they ended before the page was loaded

// REST bounds what the page's questions cost a busy daemon: a pause is at least as many times as
// long as the answer took.
const REST = 10;

const EVENTS = ["pending", "sent", "settled", "superseded", "dead", "dropped"];

export class Daemon {
  status = null;
  history = null;
  error = null; // why the last status is old
  connected = null; // to the events; false once they are lost
  writes = new Writes();

  #observers = new Set();
  #listeners = new Set();
  #source = null;
  #last = ""; // the id of the newest event
  #anew = false; // the writes that wait have to be read
  #anewDue = 0; // when they may be, by performance.now
  #timers = new Map();
  #frame = 0;

  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.#resume()));
    this.#resume();
  }

  // observe calls a function after each change, at most once a frame. It returns how to stop that.
  observe(observer) {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  // listen hands each event of a write to a function: its name and its data.
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // refresh asks for the status soon; several calls make one question.
  refresh = () => this.#after("status", 50, () => this.#readStatus());

  #resume() {
    if (document.hidden) return;
    this.#readStatus();
    this.#readHistory();
    this.#connect();
  }

  #pause() {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#disconnect();
    this.connected = null;
  }

  #after(name, wait, action) {
    clearTimeout(this.#timers.get(name));
    this.#timers.set(name, setTimeout(action, wait));
  }

  async #readStatus() {
    const began = performance.now();
    try {
      this.status = await get("status", { namespaces: NAMESPACES });
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.#changed();
    if (!document.hidden) this.#after("status", Math.max(STATUS_EVERY, REST * (performance.now() - began)), () => this.#readStatus());
  }

  async #readHistory() {
    try {
      this.history = await get("history");
      this.#changed();
    } catch {
      // The status says that the daemon does not answer; the charts keep what they show.
    }
    if (!document.hidden) this.#after("history", HISTORY_EVERY, () => this.#readHistory());
  }

  #connect() {
    this.#disconnect();
    const source = new EventSource(address("events", { after: this.#last }));
    this.#source = source;
    source.onopen = () => this.#setConnected(true);
    source.onerror = () => {
      this.#setConnected(false);
      this.#disconnect();
      if (!document.hidden) this.#after("events", RECONNECT_AFTER, () => this.#connect());
    };
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => this.#take(event, name));
    }
    source.addEventListener("upstream", (event) => {
      this.#last = event.lastEventId;
      this.refresh();
    });
    source.addEventListener("reset", (event) => {
      this.#last = event.lastEventId;
      this.#readAnew();
    });
    if (this.#last === "" || this.#anew) this.#readAnew();
  }

  #disconnect() {
    this.#source?.close();
    this.#source = null;
  }

  #setConnected(connected) {
    this.connected = connected;
    this.#changed();
  }

  #take(event, name) {
    this.#last = event.lastEventId;
    const data = JSON.parse(event.data);
    this.writes.take(name, data);
    for (const listener of this.#listeners) listener(name, data);
    if (name === "dead" || name === "dropped") this.refresh();
    this.#changed();
  }

  // readAnew begins with the writes that wait, and the last ones that do not.
  #readAnew() {
    this.#anew = true;
    this.writes.forget();
    for (const listener of this.#listeners) listener("reset", {});
    this.#after("pending", Math.max(0, this.#anewDue - performance.now()), () => this.#readPending());
  }

  async #readPending() {
    this.#anew = false;
    const began = performance.now();
    try {
      this.writes.add((await get("pending", { limit: this.writes.limit })).pending);
      this.writes.add((await get("receipts", { limit: EARLIER })).receipts);
      this.#changed();
    } catch {
      this.#anew = true; // The status says that the daemon does not answer.
    }
    this.#anewDue = performance.now() + REST * (performance.now() - began);
  }

  #changed() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      for (const observer of this.#observers) observer();
    });
  }
}
