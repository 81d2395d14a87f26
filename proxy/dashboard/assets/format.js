// Numbers, times and names as people write them.

const whole = new Intl.NumberFormat("en");
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exactTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const dayAndExactTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// NONE stands where nothing was measured.
export const NONE = "–";

export const number = (n) => (n == null ? NONE : whole.format(n));

// count is a number with its noun: "1 write", "1,204 writes", "2 entries".
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// three has about as many digits as anybody reads.
const three = (x) => (x >= 100 ? Math.round(x).toString() : x >= 10 ? x.toFixed(1).replace(/\.0$/, "") : x.toFixed(2).replace(/\.?0+$/, ""));

export function bytes(n) {
  if (n == null) return NONE;
  if (n < 1000) return count(n, "byte");
  const units = ["kB", "MB", "GB", "TB"];
  let unit = -1;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return `${three(n)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return count(Math.round(hours / 24), "day");
}

export const microseconds = (us) => (us == null ? NONE : us < 1000 ? `${three(us)} µs` : us < 1e6 ? `${three(us / 1000)} ms` : `${three(us / 1e6)} s`);

export const percent = (share) => (share == null || Number.isNaN(share) ? NONE : share > 0.99 && share < 1 ? `${(Math.floor(share * 1000) / 10).toFixed(1)} %` : `${Math.round(share * 100)} %`);

// instant reads a time of the daemon's: Unix seconds, or a text of RFC 3339. It is in milliseconds.
export const instant = (at) => (at == null ? null : typeof at === "number" ? at * 1000 : Date.parse(at));

// RESTORED is the written_at of a write that a restore has made: it gives way to any other. written formats the others.
export const RESTORED = 1;
export const written = (at, format) => (at === RESTORED ? "by a restore" : format(at));

export const exact = (at) => exactTime.format(instant(at));

const isToday = (at) => new Date(instant(at)).toDateString() === new Date().toDateString();

// clock is a time of day, and the day too if that is not today. moment is that to the second.
export const clock = (at) => (isToday(at) ? clockTime : dayAndTime).format(instant(at));
export const moment = (at) => (isToday(at) ? exactTime : dayAndExactTime).format(instant(at));

export function ago(at, now = Date.now()) {
  if (at == null) return "never";
  const seconds = (now - instant(at)) / 1000;
  return seconds < 2 ? "just now" : `${duration(seconds)} ago`;
}
