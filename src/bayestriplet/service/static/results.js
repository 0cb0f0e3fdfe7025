// What a search found: the grid, the bars, the gauge.

import { breakable, byId, make, show } from "./element.js";
import { enlarge } from "./enlarge.js";
import { havePictures, noun, tile } from "./pictures.js";

export const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1%" : `${(100 * share).toFixed(1)}%`);
const named = (label) => (label === "" ? "no label" : label);

export function showWaiting(k) {
  const results = byId("results");
  results.classList.add("waiting");
  results.replaceChildren(...Array.from({ length: Math.min(k, 10) }, () => make("li", { "aria-hidden": "true" })));
  byId("answer").setAttribute("aria-busy", "true");
  show("results");
  show("empty", false);
  for (const id of ["legend", "left-out"]) show(id, false);
  byId("verdict").textContent = "Searching …";
}

export function showNothing() {
  byId("results").replaceChildren();
  byId("verdict").textContent = "";
  byId("answer").removeAttribute("aria-busy");
  for (const id of ["results", "legend", "says", "left-out"]) show(id, false);
  for (const id of ["empty", "says-empty"]) show(id);
}

// Labels are compared with that of the query if it is known, else with what most neighbours are of: one label, or those tied.
function compareWith(answer, ownLabel) {
  if (ownLabel) return { labels: [ownLabel], than: "the query", legend: `the same label as the query’s own label, ${ownLabel}` };
  const tied = answer.vote?.tied ?? [];
  if (tied.length) return { labels: tied, tied: true, legend: `one of the tied labels, ${listed(tied)}` };
  const labels = answer.vote ? [answer.vote.label] : [];
  return { labels, than: "the majority", legend: `the same label as the majority of these neighbours, ${labels[0]}` };
}

const listed = (labels) => `${labels.slice(0, -1).join(", ")} and ${labels.at(-1)}`;

export function showAnswer(answer, ownLabel, onItem) {
  const compared = compareWith(answer, ownLabel);
  const results = byId("results");
  results.classList.remove("waiting");
  results.replaceChildren(...answer.neighbours.map((one, at) => card(one, compared, (opener) => open(answer.neighbours, at, opener, onItem))));
  results.scrollTop = 0;
  byId("answer").removeAttribute("aria-busy");
  show("results", answer.neighbours.length > 0);
  show("empty", false);
  showVerdict(answer);
  const legend = byId("legend");
  legend.hidden = compared.labels.length === 0 || answer.neighbours.length === 0;
  legend.textContent = `✓ and a solid frame: ${compared.legend}. ✗ and a dashed frame: another label.`;
  showClasses(answer);
}

// Vectors have no pictures to enlarge: they are searched from at once.
function open(neighbours, at, opener, onItem) {
  if (havePictures()) enlarge(neighbours, at, opener, onItem);
  else onItem(neighbours[at].id);
}

function card(one, compared, onOpen) {
  const match = one.label !== "" && compared.labels.includes(one.label);
  const known = one.label !== "" && compared.labels.length > 0;
  const [same, other] = compared.tied
    ? ["one of the tied labels", "another label than those tied"]
    : [`the same label as ${compared.than}`, `another label than ${compared.than}`];
  const sign = known ? (match ? `✓ ${compared.tied ? "tied" : "same"} label` : "✗ other label") : "label unknown";
  const meaning = known ? (match ? same : other) : "label unknown";
  const spoken = `Rank ${one.rank}: ${named(one.label)}, distance ${one.distance.toFixed(4)}, ${meaning}. ${havePictures() ? "Enlarge." : "Search from this item."}`;
  const button = make(
    "button",
    { type: "button", class: known ? (match ? "match" : "mismatch") : "", "aria-label": spoken, title: one.path || one.id,
      onclick: (event) => onOpen(event.currentTarget) },
    tile(one.id),
    make("span", { class: "name" }, ...breakable(named(one.label))),
    make("span", { class: "distance" }, one.distance.toFixed(4)),
    make("span", { class: "sign" }, sign),
  );
  return make("li", {}, button);
}

function showVerdict(answer) {
  const number = answer.neighbours.length;
  const verdict = byId("verdict");
  if (number === 0 && answer.excluded_group) verdict.textContent = "The index holds no items of other groups.";
  else if (number === 0) verdict.textContent = "The index holds no other items.";
  else if (answer.vote === null) verdict.textContent = "No neighbour has a label.";
  else {
    const { label, share, tied } = answer.vote;
    const votes = `${Math.round(share * number)} of ${number} neighbours`;
    if (tied.length) verdict.replaceChildren("tie: ", make("strong", {}, listed(tied)), `, ${votes} each`);
    else verdict.replaceChildren(make("strong", {}, label), `: ${votes}`);
  }
}

function showClasses(answer) {
  const known = answer.probabilities !== null;
  show("says", known);
  show("says-empty", !known);
  if (!known) {
    byId("says-empty").firstElementChild.textContent =
      "This run keeps no class distributions, so there are no probabilities and no novelty.";
    return;
  }
  const shares = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  byId("bars").replaceChildren(...shares.map(([name, share], rank) => bar(name, share, rank === 0)));
  showNovelty(answer);
}

function bar(name, share, first) {
  const fill = make("span", {});
  fill.style.width = `${100 * share}%`;
  return make(
    "li",
    first ? { class: "first" } : {},
    make("span", { class: "name", title: name }, ...breakable(name)),
    make("span", { class: "rail", "aria-hidden": "true" }, fill),
    make("span", { class: "share" }, percent(share)),
  );
}

// [up to, word, what it means]
const BANDS = [
  [75, "Ordinary", "validation images are often as novel as this one"],
  [95, "Somewhat unusual", "few validation images are as novel"],
  [99, "Unusual", "hardly any validation image is as novel; look twice"],
  [Infinity, "Unlike the classes", "the probabilities may mean nothing"],
];

function showNovelty(answer) {
  const gauge = byId("gauge");
  const words = byId("novelty");
  gauge.hidden = answer.novelty === null;
  words.classList.toggle("unlike", answer.unlike);
  if (answer.novelty === null) {
    words.textContent = "This run has no validation images to compare with.";
    return;
  }
  const [upTo, band, meaning] = BANDS.find(([most]) => answer.novelty <= most);
  const word = upTo === Infinity ? `${band} ${answer.against}` : band;
  const restsOn = answer.evidence ? ` Evidence: ${answer.evidence}.` : "";
  const text = `more novel than ${answer.novelty.toFixed(1)}% of validation images; ${meaning}.${restsOn}`.replaceAll("image", noun().slice(0, -1));
  words.replaceChildren(make("strong", {}, `${word}: `), text);
  gauge.setAttribute("aria-valuenow", answer.novelty.toFixed(1));
  gauge.setAttribute("aria-valuetext", `${word}: ${text}`);
  byId("needle").style.left = `${answer.novelty}%`;
}
