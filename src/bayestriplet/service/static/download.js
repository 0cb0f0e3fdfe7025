// The answer as a file: a table for programs, a picture for a report.

import { byId } from "./element.js";
import { havePictures } from "./pictures.js";
import { percent } from "./results.js";
import { thumbnailPath } from "./server.js";

const SIDE = 120; // pixels of a neighbour in the picture
const GAP = 16;
const ACROSS = 8; // neighbours in a row
const MOST = 40; // neighbours drawn
const MOST_BARS = 5;
const INK = "#16232b";
const MUTED = "#52636d";
const FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'DejaVu Sans', sans-serif";
const state = { answer: null, name: "" };

export function offerDownload(answer, name = "") {
  Object.assign(state, { answer, name });
  for (const id of ["save-csv", "save-png"]) byId(id).disabled = answer === null;
}

// A text that a spreadsheet would take for a formula gets an apostrophe before it.
function cell(value) {
  const text = String(value ?? "");
  const isFormula = typeof value === "string" && /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text));
  return `"${(isFormula ? `'${text}` : text).replaceAll('"', '""')}"`;
}

export function toCsv({ neighbours, probabilities, novelty }, name) {
  const rows = [["query", "kind", "rank", "label", "value", "id", "path"]];
  if (novelty !== null) rows.push([name, "novelty", "", "", novelty, "", ""]);
  for (const [label, share] of Object.entries(probabilities ?? {})) rows.push([name, "probability", "", label, share, "", ""]);
  for (const one of neighbours) rows.push([name, "distance", one.rank, one.label, one.distance, one.id, one.path]);
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function save(blob, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `answer ${state.name.replace(/[^\p{L}\p{N}.-]+/gu, "_").slice(-60)}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The longest beginning of a text that fits, with a sign where something is left out.
function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let letters = [...text];
  while (letters.length && context.measureText(`${letters.join("")}…`).width > width) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}

function wrap(context, text, width) {
  const lines = [];
  let rest = [...text];
  while (rest.length) {
    let size = rest.length;
    while (size > 1 && context.measureText(rest.slice(0, size).join("")).width > width) size -= 1;
    const space = rest.slice(0, size).lastIndexOf(" ");
    if (size < rest.length && space > 0) size = space + 1;
    lines.push(rest.slice(0, size).join("").trim());
    rest = rest.slice(size);
  }
  return lines;
}

async function load(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  return image;
}

// A picture within a square, its few pixels sharp; in place of one that is missing, its id.
async function drawTile(context, source, id, x, y, side) {
  context.fillStyle = source ? "#10181c" : "#eef2f4";
  context.fillRect(x, y, side, side);
  const image = source ? await load(source).catch(() => null) : null;
  if (image === null) {
    context.fillStyle = source ? "#ffffff" : INK;
    context.font = `12px ${FONT}`;
    wrap(context, id, side - 12).slice(0, 7).forEach((line, i) => context.fillText(line, x + 6, y + 18 + 15 * i));
    return;
  }
  const scale = Math.min(side / image.naturalWidth, side / image.naturalHeight);
  const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
  context.imageSmoothingEnabled = image.naturalWidth > 64;
  context.drawImage(image, x + (side - width) / 2, y + (side - height) / 2, width, height);
}

function drawBars(context, probabilities, x, y, width) {
  const likeliest = Object.entries(probabilities ?? {}).sort((a, b) => b[1] - a[1]).slice(0, MOST_BARS);
  likeliest.forEach(([label, share], i) => {
    const top = y + 24 * i;
    context.font = `14px ${FONT}`;
    context.fillStyle = INK;
    context.fillText(fit(context, label, 190), x, top + 14);
    context.fillText(percent(share), x + width - 55, top + 14);
    context.fillStyle = "#e8edef";
    context.fillRect(x + 200, top + 2, width - 270, 14);
    context.fillStyle = "#0b5f6b";
    context.fillRect(x + 200, top + 2, Math.max(1, (width - 270) * share), 14);
  });
}

export async function toPicture(answer, name, { asked, verdict, novelty, size }) {
  const drawn = answer.neighbours.slice(0, MOST);
  const width = 2 * GAP + ACROSS * (SIDE + GAP) - GAP;
  const rows = Math.ceil(drawn.length / ACROSS);
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  context.font = `15px ${FONT}`;
  const words = [verdict, novelty].filter(Boolean).flatMap((text) => wrap(context, text, width - 3 * GAP - size));
  const bars = Math.min(MOST_BARS, Object.keys(answer.probabilities ?? {}).length);
  const head = Math.max(size, 34 + 21 * words.length + 12 + 24 * bars);
  canvas.width = width;
  canvas.height = 2 * GAP + head + rows * (SIDE + 58);
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, width, canvas.height);
  await drawTile(context, asked, name, GAP, GAP, size);
  const left = 2 * GAP + size;
  context.fillStyle = INK;
  context.font = `600 18px ${FONT}`;
  context.fillText(fit(context, name, width - left - GAP), left, GAP + 18);
  context.font = `15px ${FONT}`;
  words.forEach((line, i) => context.fillText(line, left, GAP + 48 + 21 * i));
  drawBars(context, answer.probabilities, left, GAP + 34 + 21 * words.length + 12, width - left - GAP);
  for (const [i, one] of drawn.entries()) {
    const x = GAP + (i % ACROSS) * (SIDE + GAP);
    const y = 2 * GAP + head + Math.floor(i / ACROSS) * (SIDE + 58);
    await drawTile(context, havePictures() ? thumbnailPath(one.id) : null, one.id, x, y, SIDE);
    context.fillStyle = INK;
    context.font = `600 13px ${FONT}`;
    context.fillText(fit(context, `${one.rank}. ${one.label || "no label"}`, SIDE), x, y + SIDE + 17);
    context.fillStyle = MUTED;
    context.font = `13px ${FONT}`;
    context.fillText(one.distance.toFixed(4), x, y + SIDE + 34);
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

byId("save-csv").addEventListener("click", () => {
  // The mark at the beginning says UTF-8 to spreadsheets.
  save(new Blob(["\ufeff", toCsv(state.answer, state.name)], { type: "text/csv" }), "csv");
});
byId("save-png").addEventListener("click", async () => {
  const image = byId("asked-image");
  const asked = image.hidden || !image.src ? null : image.src;
  const said = { asked, verdict: byId("verdict").textContent, novelty: byId("says").hidden ? "" : byId("novelty").textContent, size: 200 };
  save(await toPicture(state.answer, state.name, said), "png");
});
