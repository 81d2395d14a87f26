// The quotas of upstream writes: how much each namespace has used, and when its quota runs out.

import { html, useState } from "./vendor/htm-preact.js";
import { clock, count, duration, number } from "./format.js";

const SHOWN = 5;

const share = (n) => n.quota.used / Math.max(1, n.quota.limit);

// isShort says that the quota keeps writes waiting.
const isShort = ({ waits }) => waits?.why.startsWith("quota") ?? false;

const waiting = (n) => `${count(n, "write")} wait${n === 1 ? "s" : ""} until`;

function prospect({ quota, pending, ...n }) {
  if (quota.left === 0 && quota.used < quota.limit) return `used up, says upstream (HTTP 429)${n.waits?.until ? `: ${waiting(pending)} ${clock(n.waits.until)}` : ""}`;
  if (isShort(n) && quota.left > 0) return `${waiting(pending)} about ${clock(60 * Math.round((Date.now() / 1000 + quota.linger_seconds) / 60))}`;
  if (quota.left === 0) return `used up; a new window begins at ${clock(quota.resets_at)}`;
  if (quota.runs_out_at && quota.linger_seconds >= 1) return `a write waits about ${duration(quota.linger_seconds)}`; // so it lasts
  if (quota.runs_out_at) return `runs out at ${clock(quota.runs_out_at)} at this pace`;
  return `lasts until the next window, at ${clock(quota.resets_at)}`;
}

function Quota({ of }) {
  const { namespace, quota } = of;
  const level = quota.left === 0 ? "bad" : quota.runs_out_at || isShort(of) ? "warn" : "";
  return html`
    <li class=${`quota ${level}`}>
      <a href=${`#/memory/${namespace}`} class="name">${namespace}</a>
      <span class="figure">${number(quota.used)} <small>of ${number(quota.limit)}</small></span>
      <span class="bar" role="meter" aria-label=${`Used of ${namespace}`} aria-valuemin="0" aria-valuemax=${quota.limit} aria-valuenow=${quota.used}
        aria-valuetext=${`${number(quota.used)} of ${count(quota.limit, "write")}`}><i style=${{ width: `${100 * share({ quota })}%` }}></i></span>
      <span class="note">${prospect(of)}</span>
    </li>`;
}

// Quotas shows the namespaces that are nearest to their end first; nothing where none has used a quota.
export function Quotas({ namespaces }) {
  const [all, setAll] = useState(false);
  const limited = namespaces.filter((n) => n.quota).sort((a, b) => share(b) - share(a));
  if (limited.length === 0) return null;
  return html`
    <section class="panel quotas" aria-labelledby="quotas">
      <header><h2 id="quotas">Quota of upstream writes</h2></header>
      <ul>${limited.slice(0, all ? 100 : SHOWN).map((n) => html`<${Quota} key=${n.namespace} of=${n} />`)}</ul>
      ${limited.length > SHOWN && html`
        <button type="button" class="more" onClick=${() => setAll(!all)}>${all ? "Fewer" : `${number(limited.length - SHOWN)} more`}</button>`}
    </section>`;
}
