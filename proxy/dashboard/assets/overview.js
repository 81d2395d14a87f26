// The overview: the last writes, what the daemon saves, the last hour, and the quotas.

import { html } from "./vendor/htm-preact.js";
import { Chart } from "./chart.js";
import { Flow } from "./flow.js";
import { bytes, clock, count, duration, microseconds, NONE, number, percent } from "./format.js";
import { Quotas } from "./quotas.js";

const Tile = ({ name, value, children }) => html`
  <div class="tile"><dt>${name}</dt><dd><b>${value}</b><span>${children}</span></dd></div>`;

function Tiles({ status }) {
  const { reads, writes } = status;
  const refused = status.namespaces.reduce((sum, n) => sum + (n.paused ? n.pending : 0), 0);
  const answered = reads?.total > 0 ? reads.hits / reads.total : null;
  return html`
    <dl class="tiles">
      <${Tile} name="Answered here" value=${percent(answered)}>
        ${reads ? `${number(reads.hits)} of ${count(reads.total, "read")}` : NONE}
      <//>
      <${Tile} name="Waiting saved" value=${duration(status.time_saved_seconds)}>for agents, an estimate<//>
      <${Tile} name="Upstream writes saved" value=${number(writes?.saved)}>
        ${writes ? `of ${count(writes.acknowledged, "write")} since the start: newer ones replaced them` : NONE}
      <//>
      <${Tile} name="Pending" value=${number(status.pending)}>
        ${refused ? `${number(refused)} refused by upstream` : status.pending > 0 ? `${bytes(status.pending_bytes)}, the oldest ${duration(status.oldest_pending_seconds)}` : "nothing waits"}
      <//>
    </dl>`;
}

const LATENCY = [
  { name: "Here, median", field: "local_p50_us", ink: "here", show: microseconds },
  { name: "Here, 99 %", field: "local_p99_us", ink: "here", dashed: true, show: microseconds },
  { name: "Upstream, median", field: "upstream_p50_us", ink: "there", show: microseconds },
  { name: "Upstream, 99 %", field: "upstream_p99_us", ink: "there", dashed: true, show: microseconds },
];

const perSecond = (n) => (n == null ? NONE : `${number(Math.round(n * 10) / 10)}/s`);

const trafficFor = (step) => [
  { name: "Reads", field: "reads", ink: "here", scale: 1 / step, show: perSecond },
  { name: "Writes", field: "writes", ink: "writes", scale: 1 / step, show: perSecond },
  { name: "Sent upstream", field: "sent", ink: "there", scale: 1 / step, show: perSecond },
];

const WAITING = [
  { name: "Pending writes", field: "pending", ink: "writes", filled: true, show: number },
];

function Outages({ history }) {
  if (!history.outages?.length) return null;
  return html`
    <details class="outages">
      <summary><i class="swatch outage" aria-hidden="true"></i>${count(history.outages.length, "outage")}</summary>
      <ul>${history.outages.map((o) => html`
        <li key=${o.from}><b>${o.state}</b> ${clock(o.from)} to ${o.to ? clock(o.to) : "now"} <span>${o.reason}</span></li>`)}</ul>
    </details>`;
}

function Charts({ history }) {
  return html`
    <section class="panel charts" aria-labelledby="hour">
      <header><h2 id="hour">The last hour</h2><${Outages} history=${history} /></header>
      <div class="chart-grid">
        <${Chart} title="Latency, here against upstream" history=${history} series=${LATENCY} logarithmic=${true} tall=${true} />
        <${Chart} title="Requests" history=${history} series=${trafficFor(history.step_seconds)} />
        <${Chart} title="Waiting for upstream" history=${history} series=${WAITING} />
      </div>
    </section>`;
}

export function Overview({ daemon }) {
  const { status, history } = daemon;
  if (!status) return null;
  return html`
    <div class="overview">
      <${Flow} daemon=${daemon} />
      <div class="side">
        <${Tiles} status=${status} />
        <${Quotas} namespaces=${status.namespaces} />
      </div>
    </div>
    ${history && html`<${Charts} history=${history} />`}`;
}
