// Teaching: the picture of the answer, and others, are given a class; the last time can be undone.

import { byId, make, show } from "./element.js";
import * as server from "./server.js";

const state = { replay: null, last: null, again: null };

export function offerTeaching(answer, again) {
  state.replay = answer?.replay ?? null;
  state.again = again;
  show("teach", state.writable === true && state.replay !== null && answer.probabilities !== null);
}

export async function loadClasses() {
  const found = await server.getClasses();
  state.writable = found.writable;
  byId("teach-classes").replaceChildren(...found.classes.map(({ name }) => make("option", { value: name })));
}

function say(text) {
  byId("teach-note").textContent = text;
}

function busy(on) {
  for (const id of ["teach-button", "teach-undo"]) byId(id).disabled = on;
}

// Each further picture is searched for first, which gives what the server needs to know it again.
async function replays(files) {
  const found = [state.replay];
  for (const file of files) {
    const options = { k: 1, label: "", group: "", excludeSelf: false };
    found.push((await server.search({ file }, options)).replay);
  }
  return found;
}

async function change(label, taught, undo) {
  await server.teach(label, taught, undo);
  state.last = undo ? null : { label, taught };
  show("teach-undo", !undo);
  byId("teach-more").value = "";
  await loadClasses();
  await state.again();
  const number = taught.length === 1 ? "1 picture" : `${taught.length} pictures`;
  say(undo ? `Undone: ${number} of ${label}.` : `Taught: ${number} of ${label}.`);
}

async function attempt(work) {
  busy(true);
  say("");
  try {
    await work();
  } catch (problem) {
    say(problem.message);
  } finally {
    busy(false);
  }
}

byId("teach").addEventListener("submit", (event) => {
  event.preventDefault();
  const label = byId("teach-class").value.trim();
  if (label) attempt(async () => change(label, await replays(byId("teach-more").files), false));
});
byId("teach-undo").addEventListener("click", () => {
  if (state.last) attempt(() => change(state.last.label, state.last.taught, true));
});
