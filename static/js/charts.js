// Draws the tables that figures name: the table is the data, so what is drawn is what can be read.
//   <figure data-chart data-table="table-id" data-x="0" data-series="1" data-band="2 3" data-y="0 1" data-percent>
// A cell's number stands in its data-value; a cell without one is a gap.
// A row whose heading has a data-name is called so; of several series each is called by its column's heading.
// Charts under one [data-charts] share cursor and zoom, and what its [data-chart-tools] say.
const SIZES = { true: 150, false: 260 };
const KEPT = 0.6;
const charts = new Map();

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function column(rows, index) {
  return rows.map((row) => {
    const text = row.cells[index]?.dataset.value;
    return text === undefined || text === "" ? null : Number(text);
  });
}

function rowsOf(figure) {
  return [...(document.getElementById(figure.dataset.table)?.tBodies[0]?.rows ?? [])];
}

function read(figure) {
  const rows = rowsOf(figure);
  const series = figure.dataset.series.split(" ").map((index) => column(rows, Number(index)));
  const band = figure.dataset.band ? figure.dataset.band.split(" ").map((index) => column(rows, Number(index))) : [];
  const isSmooth = isAsked(figure, "smooth");
  return [column(rows, Number(figure.dataset.x)), ...(isSmooth ? series.map(smooth) : series), ...band];
}

// A running mean that forgets: each point keeps KEPT of what was before it.
function smooth(values) {
  let mean = null;
  return values.map((value) => {
    if (value !== null) mean = mean === null ? value : KEPT * mean + (1 - KEPT) * value;
    return value === null ? null : mean;
  });
}

function isAsked(figure, what) {
  return Boolean(figure.closest("[data-charts]")?.querySelector(`[data-chart-${what}]`)?.checked);
}

function canBeLog(data) {
  const values = data.slice(1).flat().filter((value) => value !== null);
  return values.length > 0 && values.every((value) => value > 0);
}

function write(figure, value) {
  if (value === null || value === undefined) return "–";
  if ("percent" in figure.dataset) return `${(100 * value).toFixed(1)} %`;
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function options(figure, width, data) {
  const count = data[0].length;
  const isLog = isAsked(figure, "log") && canBeLog(data);
  const isSmall = "small" in figure.dataset;
  const isShort = count <= 12;
  const series = figure.dataset.series.split(" ");
  const inks = ["accent", "second", "info", "good", "bad", "sixth"].map(color);
  const fixed = figure.dataset.y?.split(" ").map(Number);
  const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const lines = series.map((_, place) => ({
    stroke: inks[place],
    width: 2,
    spanGaps: true,
    points: { show: !isSmall || isShort, size: isSmall ? 5 : 7, fill: inks[place] },
  }));
  const hasBand = Boolean(figure.dataset.band);
  const group = figure.closest("[data-charts]")?.dataset.charts;
  const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
  return {
    width,
    height: SIZES[isSmall],
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 9 }, ...(group ? { sync: { key: group, setSeries: false } } : {}) },
    scales: { x: { time: false }, y: isLog ? { distr: 3 } : fixed ? { range: fixed } : { range: (_, low, high) => spread(low, high) } },
    axes: [
      { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], size: 28, gap: 4 },
      { ...axis, size: 52, gap: 6, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : write(figure, tick).replace(".0 %", " %"))) },
    ],
    series: [{}, ...lines, ...(hasBand ? [edge, edge] : [])],
    bands: hasBand ? [{ series: [series.length + 2, series.length + 1], fill: `${color("accent")}2b` }] : [],
    hooks: { setCursor: [(plot) => say(figure, plot)], setScale: [(plot, scale) => scale === "x" && offerReset(figure)] },
  };
}

function spread(low, high) {
  if (low === null) return [0, 1];
  const room = high > low ? 0.1 * (high - low) : Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function say(figure, plot) {
  const place = plot.cursor.idx ?? plot.data[1].findLastIndex((value) => value !== null);
  const out = figure.querySelector(".said");
  if (!out || place < 0) return;
  const columns = figure.dataset.series.split(" ");
  const count = columns.length;
  const rows = rowsOf(figure);
  const heads = document.getElementById(figure.dataset.table)?.tHead?.rows[0].cells ?? [];
  const named = columns.map((index) => (count > 1 ? `${heads[index]?.textContent.trim()} ` : ""));
  const shown = plot.data.slice(1, 1 + count).map((values, index) => `${named[index]}${write(figure, values[place])}`);
  const [low, high] = plot.data.slice(1 + count).map((values) => write(figure, values[place]));
  const interval = low === undefined ? "" : ` (${low} to ${high})`;
  const name = rows[place]?.cells[Number(figure.dataset.x)]?.dataset.name;
  out.textContent = `${name ?? `${figure.dataset.xName} ${plot.data[0][place]}`}: ${shown.join(", ")}${interval}`;
}

function isZoomed({ data, scales }) {
  return data[0].length > 1 && (scales.x.min > data[0][0] || scales.x.max < data[0].at(-1));
}

function offerReset(figure) {
  const button = figure.closest("[data-charts]")?.querySelector("[data-zoom-out]");
  if (!button) return;
  const inside = [...charts].filter(([place]) => place.closest("[data-charts]") === figure.closest("[data-charts]"));
  button.hidden = !inside.some(([, { plot }]) => isZoomed(plot));
}

function draw(figure) {
  const place = figure.querySelector(".plot");
  const data = read(figure);
  const known = charts.get(place);
  if (known) {
    known.plot.setData(data, !isZoomed(known.plot));
    if (isZoomed(known.plot)) known.plot.redraw();
    say(figure, known.plot);
    return;
  }
  if (!place.clientWidth || !data[0]?.length) return;
  const plot = new uPlot(options(figure, place.clientWidth, data), data, place);
  const watch = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: plot.height }));
  watch.observe(place);
  charts.set(place, { plot, watch });
  say(figure, plot);
}

function drawAll() {
  for (const [place, { plot, watch }] of charts) {
    if (!place.isConnected) {
      watch.disconnect();
      plot.destroy();
      charts.delete(place);
    }
  }
  document.querySelectorAll("[data-chart]").forEach(draw);
  document.querySelectorAll("[data-chart-tools]").forEach((tools) => (tools.hidden = false));
}

function redrawAll() {
  for (const { plot, watch } of charts.values()) {
    watch.disconnect();
    plot.destroy();
  }
  charts.clear();
  drawAll();
  document.querySelectorAll("[data-zoom-out]").forEach((button) => (button.hidden = true));
}

function zoomOut(section) {
  for (const [place, { plot }] of charts) {
    if (place.closest("[data-charts]") === section) plot.setScale("x", { min: plot.data[0][0], max: plot.data[0].at(-1) });
  }
}

document.addEventListener("htmx:after:swap", drawAll);
document.addEventListener("toggle", drawAll, true);
document.addEventListener("change", (event) => {
  if (event.target.closest("[data-chart-tools]")) redrawAll();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom-out]");
  if (button) zoomOut(button.closest("[data-charts]"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
new MutationObserver(redrawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
drawAll();
