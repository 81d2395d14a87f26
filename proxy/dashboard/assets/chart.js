// A chart of the last hour: uPlot draws the lines, and the outages are bands behind them.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { exact, instant } from "./format.js";

const HOUR = 3600; // seconds
const SHORTEST = 600; // of a daemon that has just started: its first points are a line, not a dot
const LABELS = [60, 120, 300, 600, 900, 1800]; // seconds between two; a label has no seconds
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

// ink is a colour of the style sheet as a canvas understands it.
function ink(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

// faint is the same colour, nearly transparent.
const faint = (color, alpha) => `color-mix(in srgb, ${color} ${alpha * 100}%, transparent)`;

const columns = (history, series) => [
  history.points.map((p) => instant(p.at) / 1000),
  ...series.map((s) => history.points.map((p) => (p[s.field] == null ? null : p[s.field] * (s.scale ?? 1)))),
];

// drawOutages paints a band behind the lines for each outage.
function drawOutages(plot, outages, colors) {
  const { left, top, width, height } = plot.bbox;
  for (const outage of outages) {
    const from = Math.max(left, plot.valToPos(instant(outage.from) / 1000, "x", true));
    const to = Math.min(left + width, outage.to ? plot.valToPos(instant(outage.to) / 1000, "x", true) : left + width);
    if (to <= left || from >= left + width) continue;
    plot.ctx.fillStyle = outage.state === "down" ? colors.down : colors.degraded;
    plot.ctx.fillRect(from, top, Math.max(2, to - from), height);
  }
}

// span is from the first point on, within the last hour.
function span({ now, from }) {
  return [Math.max(now - HOUR, Math.min(from ?? now, now - SHORTEST)), now];
}

// WHOLE are the steps of the other axis: a fraction of a write would be rounded to a wrong label.
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();

// powersOfTen are the lines of a logarithmic axis; uPlot's own are too many to look at.
function powersOfTen(_, axis, min, max) {
  const powers = [];
  for (let power = 10 ** Math.ceil(Math.log10(min) - 1e-9); power <= max * 1.001; power *= 10) powers.push(power);
  return powers;
}

function axes(series, logarithmic, text, line) {
  const common = { stroke: text, font: FONT, ticks: { show: false }, border: { show: false } };
  const label = (value) => (value == null ? "" : series[0].show(value));
  const splits = logarithmic ? { splits: powersOfTen } : { incrs: WHOLE };
  return [
    { ...common, grid: { show: false }, space: 60, size: 24, incrs: LABELS, values: (_, times) => times.map((t) => exact(t).slice(0, 5)) },
    { ...common, grid: { stroke: line, width: 1 }, size: 58, gap: 6, space: 28, ...splits, values: (_, values) => values.map(label) },
  ];
}

// yRange gives an empty chart a range too, and a small one room.
const logRange = (_, min, max) => (min == null ? [10, 1e6] : uPlot.rangeLog(Math.min(min, 10), Math.max(max, 1e5), 10, true));
const linearRange = (_, min, max) => [0, Math.max(1, (max ?? 0) * 1.1)];

function options({ series, logarithmic, tall }, width, current, hover) {
  const colors = { down: faint(ink("bad"), 0.16), degraded: faint(ink("warn"), 0.16) };
  return {
    width,
    height: tall ? 240 : 160,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    padding: [8, 18, 0, 0],
    scales: {
      x: { time: true, range: () => span(current()) },
      y: { distr: logarithmic ? 3 : 1, range: logarithmic ? logRange : linearRange },
    },
    axes: axes(series, logarithmic, ink("muted"), ink("line")),
    series: [{}, ...series.map((s) => ({
      stroke: ink(s.ink), width: s.dashed ? 1 : 2, dash: s.dashed ? [3, 3] : undefined,
      fill: s.filled ? faint(ink(s.ink), 0.15) : undefined, points: { show: false }, spanGaps: false,
    }))],
    hooks: {
      drawClear: [(plot) => drawOutages(plot, current().outages, colors)],
      setCursor: [(plot) => hover(plot.cursor.idx)],
    },
  };
}

// useDark changes when the colours do.
function useDark() {
  const media = useRef(matchMedia("(prefers-color-scheme: dark)")).current;
  const [dark, setDark] = useState(media.matches);
  useEffect(() => {
    const changed = () => setDark(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return dark;
}

export function Chart({ title, history, series, logarithmic, tall }) {
  const box = useRef();
  const plot = useRef();
  const shown = useRef(); // what the drawing functions look at: the newest history
  const [index, setIndex] = useState(null);
  const dark = useDark();
  const first = history.points[0];
  shown.current = { now: instant(history.now) / 1000, from: first && instant(first.at) / 1000, outages: history.outages ?? [] };

  useEffect(() => {
    const width = () => Math.max(200, box.current.clientWidth);
    plot.current = new uPlot(options({ series, logarithmic, tall }, width(), () => shown.current, setIndex), columns(history, series), box.current);
    const resized = new ResizeObserver(() => plot.current.setSize({ width: width(), height: tall ? 240 : 160 }));
    resized.observe(box.current);
    return () => {
      resized.disconnect();
      plot.current.destroy();
    };
  }, [dark]);
  useEffect(() => plot.current.setData(columns(history, series)), [history]);

  const point = history.points[index ?? history.points.length - 1];
  const values = series.map((s) => {
    const value = point?.[s.field];
    return { ...s, text: s.show(value == null ? null : value * (s.scale ?? 1)) };
  });
  return html`
    <figure class=${tall ? "chart tall" : "chart"}>
      <figcaption>
        <h3>${title}</h3>
        <ul>${values.map((s) => html`
          <li key=${s.field}><i class=${`swatch ${s.ink} ${s.dashed ? "dashed" : ""}`} aria-hidden="true"></i>${s.name} <b>${s.text}</b></li>`)}</ul>
        <time>${point ? (index == null ? "now" : exact(point.at)) : ""}</time>
      </figcaption>
      <div class="plot" ref=${box} role="img" aria-label=${`${title}. ${values.map((s) => `${s.name} ${s.text}`).join(", ")}`}></div>
    </figure>`;
}
