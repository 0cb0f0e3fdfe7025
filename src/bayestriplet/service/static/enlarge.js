// A neighbour enlarged, side by side with the query; arrow keys go to the next one, Escape closes.

import { breakable, byId, facts, picture } from "./element.js";
import { thumbnailPath } from "./server.js";

const dialog = byId("enlarged");
const state = { neighbours: [], at: 0, opener: null, onItem: null };
for (const id of ["enlarged-query", "enlarged-image"]) picture(byId(id));


export function enlarge(neighbours, at, opener, onItem) {
  Object.assign(state, { neighbours, at, opener, onItem });
  const asked = byId("asked-image");
  const own = byId("enlarged-query");
  own.hidden = asked.hidden;
  own.alt = asked.alt;
  if (asked.hidden) own.removeAttribute("src");
  else own.src = asked.src;
  byId("enlarged-query-name").replaceChildren(...breakable(byId("asked-name").textContent));
  draw();
  dialog.showModal();
}

function draw() {
  const { neighbours, at } = state;
  const one = neighbours[at];
  byId("enlarged-title").textContent = `Neighbour ${at + 1} of ${neighbours.length}`;
  byId("enlarged-image").src = thumbnailPath(one.id);
  byId("enlarged-image").alt = `Neighbour ${at + 1}: ${one.label || "no label"}`;
  byId("enlarged-name").replaceChildren(...breakable(one.id));
  byId("enlarged-facts").replaceChildren(...facts({ label: one.label || "unknown", distance: one.distance.toFixed(4), file: one.path }));
  byId("enlarged-previous").disabled = at === 0;
  byId("enlarged-next").disabled = at === neighbours.length - 1;
}

function go(step) {
  const next = state.at + step;
  if (next < 0 || next >= state.neighbours.length) return;
  state.at = next;
  draw();
  if (document.activeElement.disabled) byId("enlarged-close").focus(); // keys still reach the dialog
}

dialog.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  go(step);
});
dialog.addEventListener("close", () => {
  // The answer may have been drawn anew meanwhile: then to the same place in it.
  const there = state.opener.isConnected ? state.opener : byId("results").querySelectorAll("button")[state.at];
  there?.focus();
});
byId("enlarged-previous").addEventListener("click", () => go(-1));
byId("enlarged-next").addEventListener("click", () => go(1));
byId("enlarged-close").addEventListener("click", () => dialog.close());
byId("enlarged-search").addEventListener("click", () => {
  const { id } = state.neighbours[state.at];
  dialog.close();
  state.onItem(id);
});
