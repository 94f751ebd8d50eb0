// Draws the tables that figures name: the table is the data, so what is drawn is what can be read.
//   <figure data-chart data-table="table-id" data-x="0" data-series="1" data-band="2 3" data-y="0 1" data-percent>
// data-x-real: what runs across are no whole numbers. A cell's number stands in its data-value; a cell without one is a gap.
const SIZES = { true: 150, false: 260 };
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

function read(figure) {
  const table = document.getElementById(figure.dataset.table);
  const rows = [...(table?.tBodies[0]?.rows ?? [])];
  const wanted = [figure.dataset.x, ...figure.dataset.series.split(" "), ...(figure.dataset.band ?? "").split(" ")];
  return wanted.filter((index) => index !== undefined && index !== "").map((index) => column(rows, Number(index)));
}

function write(figure, value) {
  if (value === null || value === undefined) return "–";
  if ("percent" in figure.dataset) return `${(100 * value).toFixed(1)} %`;
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function options(figure, width, count) {
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
  const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
  return {
    width,
    height: SIZES[isSmall],
    padding: [12, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 9 } },
    scales: { x: { time: false }, y: fixed ? { range: fixed } : { range: (_, low, high) => spread(low, high) } },
    axes: [
      { ...axis, incrs: "xReal" in figure.dataset ? [0.1, 0.25, 0.5, 1, 2] : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], size: 28, gap: 4 },
      { ...axis, size: 52, gap: 6, values: (_, ticks) => ticks.map((tick) => write(figure, tick).replace(".0 %", " %")) },
    ],
    series: [{}, ...lines, ...(hasBand ? [edge, edge] : [])],
    bands: hasBand ? [{ series: [series.length + 2, series.length + 1], fill: `${color("accent")}2b` }] : [],
    hooks: { setCursor: [(plot) => say(figure, plot)] },
  };
}

function spread(low, high) {
  if (low === null) return [0, 1];
  const room = high > low ? 0.1 * (high - low) : Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function say(figure, plot) {
  const place = plot.cursor.idx ?? plot.data[0].length - 1;
  const out = figure.querySelector(".said");
  if (!out || place < 0) return;
  const count = figure.dataset.series.split(" ").length;
  const shown = plot.data.slice(1, 1 + count).map((values) => write(figure, values[place]));
  const [low, high] = plot.data.slice(1 + count).map((values) => write(figure, values[place]));
  const interval = low === undefined ? "" : ` (${low} to ${high})`;
  out.textContent = `${figure.dataset.xName} ${plot.data[0][place]}: ${shown.join(", ")}${interval}`;
}

function draw(figure) {
  const place = figure.querySelector(".plot");
  const data = read(figure);
  const known = charts.get(place);
  if (known) {
    known.plot.setData(data);
    say(figure, known.plot);
    return;
  }
  if (!place.clientWidth || !data[0]?.length) return;
  const plot = new uPlot(options(figure, place.clientWidth, data[0].length), data, place);
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
}

function redrawAll() {
  for (const { plot, watch } of charts.values()) {
    watch.disconnect();
    plot.destroy();
  }
  charts.clear();
  drawAll();
}

document.addEventListener("htmx:after:swap", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
new MutationObserver(redrawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
drawAll();
