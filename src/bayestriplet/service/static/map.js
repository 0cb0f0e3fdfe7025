// The map: items as points, the query among them; by mouse, touch or keyboard.

import { byId, picture, show } from "./element.js";
import { havePictures } from "./pictures.js";
import { thumbnailPath } from "./server.js";

// Colours that stay apart also for the colour-blind, and a shape beside each.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#56b4e9", "#6a3d9a", "#7f7f7f", "#a50026", "#1b5e20"];
const BRIGHT = ["#56a9e0", "#ff8c42", "#2fc79a", "#e79cc6", "#d1b13a", "#a6dcff", "#b28ae0", "#a9a9a9", "#ff6b7d", "#7bc67e"]; // on dark ground
const SHAPES = ["circle", "square", "diamond", "cross", "triangle-up", "x", "triangle-down", "pentagon", "hexagon", "star"];
const MOST_NAMES = 30; // labels written into the map
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

export class EmbeddingMap {
  constructor(onItem) {
    this.onItem = onItem;
    this.data = null;
    this.query = null;
    this.near = [];
    this.cursor = null;
    this.node = byId("map");
    this.node.addEventListener("keydown", (event) => this.#key(event));
    picture(byId("point-image"));
  }

  get isEmpty() {
    return this.data === null || this.data.ids.length === 0;
  }

  setData(data) {
    this.data = data;
    this.rowOf = new Map(data.ids.map((id, row) => [id, row]));
    this.cursor = null;
    const part = data.ids.length < data.total ? `${data.ids.length.toLocaleString("en")} of ${data.total.toLocaleString("en")} items` : `${data.total.toLocaleString("en")} items`;
    const way = data.way === "umap" ? "UMAP" : "principal axes";
    const more = data.pending ? "; a UMAP, which keeps classes apart better, is being made" : "";
    byId("map-note").textContent = this.isEmpty ? "The index is empty." : `${part}, by ${way}${more}.`;
    this.#draw();
  }

  setQuery(place, near) {
    this.query = place;
    this.near = near;
    if (!this.isEmpty) this.#draw();
  }

  redraw() {
    if (!this.isEmpty) this.#draw();
  }

  async #draw() {
    show("map", !this.isEmpty);
    if (this.isEmpty) return;
    const first = this.node.childElementCount === 0;
    const coarse = matchMedia("(pointer: coarse)").matches;
    const layout = {
      margin: { l: 6, r: 6, t: 6, b: 6 }, showlegend: false, hovermode: "closest", dragmode: coarse ? false : "zoom",
      paper_bgcolor: colour("--panel"), plot_bgcolor: colour("--panel"), annotations: this.#names(), uirevision: this.data.way + this.data.index,
      xaxis: { visible: false, fixedrange: coarse }, yaxis: { visible: false, fixedrange: coarse },
    };
    const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
    await globalThis.Plotly.react(this.node, this.#traces(), layout, config);
    if (!first) return;
    this.node.on("plotly_click", (event) => this.#open(event.points[0]));
    this.node.on("plotly_hover", (event) => this.#describe(event.points[0].customdata));
  }

  #labels() {
    return [...new Set(this.data.labels)].sort();
  }

  #traces() {
    const { ids, labels, x, y } = this.data;
    const rows = new Map(this.#labels().map((label) => [label, []]));
    labels.forEach((label, row) => rows.get(label).push(row));
    const colours = matchMedia("(prefers-color-scheme: dark)").matches ? BRIGHT : COLOURS;
    const ink = colour("--ring");
    const traces = [...rows.values()].map((own, number) => ({
      type: "scatter", mode: "markers", hoverinfo: "none",
      x: own.map((row) => x[row]), y: own.map((row) => y[row]), customdata: own.map((row) => ids[row]),
      marker: { size: 5, opacity: 0.55, color: colours[number % colours.length], symbol: SHAPES[number % SHAPES.length] },
    }));
    const near = this.near.filter((id) => this.rowOf.has(id)).map((id) => this.rowOf.get(id));
    traces.push(this.#rings(near, 11, ink, 1.5));
    if (this.cursor !== null) traces.push(this.#rings([this.cursor], 16, colour("--accent"), 3));
    if (this.query) {
      traces.push({
        type: "scatter", mode: "markers+text", hoverinfo: "skip", x: [this.query[0]], y: [this.query[1]],
        text: ["query"], textposition: "bottom center", textfont: { size: 14, color: ink, weight: 700 },
        marker: { size: 17, symbol: "star", color: "#ffd166", line: { color: "#16232b", width: 1.5 } },
      });
    }
    return traces;
  }

  #rings(rows, size, color, width) {
    const { ids, x, y } = this.data;
    return {
      type: "scatter", mode: "markers", hoverinfo: "none",
      x: rows.map((row) => x[row]), y: rows.map((row) => y[row]), customdata: rows.map((row) => ids[row]),
      marker: { size, symbol: "circle-open", color, line: { width } },
    };
  }

  #names() {
    const labels = this.#labels().filter((label) => label !== "");
    if (labels.length > MOST_NAMES) return [];
    return labels.map((label) => {
      const rows = [...this.data.labels.keys()].filter((row) => this.data.labels[row] === label);
      const short = label.length > 22 ? `${label.slice(0, 21)}…` : label;
      return {
        x: median(rows.map((row) => this.data.x[row])), y: median(rows.map((row) => this.data.y[row])),
        text: plain(short), showarrow: false, yshift: 15, font: { size: 14, color: colour("--ink") }, bgcolor: colour("--veil"), captureevents: false,
      };
    });
  }

  #open(point) {
    if (point.customdata !== undefined) this.onItem(point.customdata);
  }

  #describe(id) {
    if (id === undefined) return;
    const image = byId("point-image");
    if (havePictures()) image.src = thumbnailPath(id);
    image.hidden = !havePictures();
    byId("point-text").textContent = `${this.data.labels[this.rowOf.get(id)] || "no label"} · ${id}`;
  }

  #key(event) {
    const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (this.isEmpty) return;
    if (event.key === "Enter" && this.cursor !== null) {
      this.onItem(this.data.ids[this.cursor]);
    } else if (event.key in ways) {
      event.preventDefault();
      this.cursor = this.#next(ways[event.key]);
      const id = this.data.ids[this.cursor];
      this.#describe(id);
      byId("status").textContent = byId("point-text").textContent;
      this.#draw();
    }
  }

  // The item nearest in a direction: within 45 degrees of it, or the current one.
  #next([right, up]) {
    const { x, y } = this.data;
    if (this.cursor === null) return this.near.length && this.rowOf.has(this.near[0]) ? this.rowOf.get(this.near[0]) : 0;
    let best = this.cursor;
    let least = Infinity;
    for (let row = 0; row < x.length; row += 1) {
      const [dx, dy] = [x[row] - x[this.cursor], y[row] - y[this.cursor]];
      const along = dx * right + dy * up;
      const aside = Math.abs(dx * up) + Math.abs(dy * right);
      if (along > 0 && aside <= along && along + aside < least) [best, least] = [row, along + aside];
    }
    return best;
  }
}
