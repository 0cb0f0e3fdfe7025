// The page: what was asked, with which options, and what comes of it.

import { offerDownload } from "./download.js";
import { breakable, byId, facts, make, picture, show } from "./element.js";
import { groupOptions, offerGroups, onSwitch, setGroupOptions, showLeftOut } from "./groups.js";
import { readLink, shrink, toBlob, writeLink } from "./link.js";
import { EmbeddingMap } from "./map.js";
import { showAnswer, showNothing, showWaiting } from "./results.js";
import { havePictures, noun, setPictures, tile } from "./pictures.js";
import * as server from "./server.js";
import { loadClasses, offerTeaching } from "./teach.js";

const MAP_AGAIN = 3000; // milliseconds until a map that is being made is asked for again

const state = { info: null, query: null, running: null, retry: null, shown: null };
picture(byId("asked-image"));
const map = new EmbeddingMap((id) => ask({ item: id }));

function options() {
  return { k: byId("k").value, label: byId("label").value, ...groupOptions(), excludeSelf: byId("self").checked };
}

function setOptions({ k, label, excludeSelf, ...ofGroups }) {
  byId("k").value = k;
  setGroupOptions(ofGroups);
  byId("self").checked = excludeSelf;
  const select = byId("label");
  const known = [...select.options].some((option) => option.value === label);
  if (!known) select.append(make("option", { value: label }, label));
  select.value = label;
}

function say(text) {
  byId("status").textContent = text;
}

function complain(problem, retry) {
  if (problem.status === 401) {
    logIn(retry);
    return;
  }
  byId("trouble-text").textContent = problem.message;
  state.retry = retry;
  show("retry", problem.status === 0 || problem.status >= 500 || problem.status === 409);
  show("trouble");
}

// Searching

async function ask(query, { remember = true } = {}) {
  state.running?.abort();
  const running = (state.running = new AbortController());
  state.query = query;
  const asked = options();
  show("trouble", false);
  showWaiting(Number(asked.k) || 1);
  say("Searching.");
  byId("copy").disabled = true;
  offerDownload(null);
  show("address", false);
  try {
    if (query.file) checkFile(query.file);
    const item = query.item === undefined ? null : await server.getItem(query.item);
    const answer = await server.search(query, asked, running.signal);
    if (running.signal.aborted) return;
    await showQuery(query, item, answer, running.signal);
    if (running.signal.aborted) return; // another question was asked while the picture was on its way
    showAnswer(answer, item?.label ?? "", (id) => ask({ item: id }));
    offerTeaching(answer, () => ask(query, { remember: false }));
    const leftOut = showLeftOut(answer, item);
    map.setQuery(answer.place, answer.neighbours.map((one) => one.id));
    say(`${answer.neighbours.length} nearest ${noun()}. ${byId("verdict").textContent}. ${leftOut} ${byId("novelty").textContent}`);
    byId("copy").disabled = false;
    offerDownload(answer, byId("asked-name").textContent);
    const link = writeLink(query, asked);
    if (remember && link !== location.hash) history.pushState(null, "", link);
    if (answer.index !== state.info?.index) await load();
  } catch (problem) {
    if (problem.name === "AbortError" || running.signal.aborted) return;
    showNothing();
    offerTeaching(null);
    if (state.shown !== query) hideQuery();
    map.setQuery(null, []);
    say("");
    complain(problem, () => ask(query, { remember }));
  }
}

function checkFile(file) {
  const most = state.info?.most_bytes ?? Infinity;
  if (file.size > most) {
    throw new server.Problem(`The image is larger than ${Math.floor(most / 2 ** 20)} MB; shrink it.`, 413);
  }
}

async function showQuery(query, item, answer, signal) {
  const image = byId("asked-image");
  const note = byId("asked-note");
  let seen = null;
  let problem = null;
  if (answer.thumbnail) {
    seen = toBlob(answer.thumbnail);
    query.replay = answer.replay;
    query.name = answer.query;
    query.small = await shrink(seen).catch(() => "");
  } else if (item && havePictures()) {
    seen = await server.getPicture(item.id).catch((error) => { problem = error; return null; });
  }
  if (signal.aborted) return; // nothing was shown before: picture and words belong together
  note.hidden = true;
  const known = item ? { label: item.label || "unknown", group: item.group, set: item.source, file: item.path } : {};
  byId("asked-name").replaceChildren(...breakable(item ? item.id : (query.file ? answer.query : query.name)));
  byId("asked-facts").replaceChildren(...facts(known));
  if (!havePictures()) {
    image.hidden = true;
  } else if (seen) {
    setPicture(image, seen);
  } else if (item) {
    showThumbnail(image, note, item.id, problem);
  } else {
    showCarried(image, note, query.small);
  }
  image.alt = item ? `Indexed item ${item.id}` : "The query as the encoder sees it";
  state.shown = query;
  show("asked");
}

// The picture and name of an earlier query must not stand beside what is said of this one.
function hideQuery() {
  state.shown = null;
  show("asked", false);
  const image = byId("asked-image");
  if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
  image.removeAttribute("src");
  byId("asked-name").textContent = "";
  byId("asked-facts").replaceChildren();
}

function setPicture(image, blob) {
  if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
  image.hidden = false;
}

function showThumbnail(image, note, id, problem) {
  image.src = server.thumbnailPath(id);
  image.hidden = false;
  note.textContent = problem.message;
  note.hidden = false;
}

function showCarried(image, note, small) {
  try {
    setPicture(image, toBlob(small));
    if (!small) throw new Error("no picture");
    note.textContent = "From a link: the picture is a small one, the answer that of the whole image.";
  } catch {
    image.hidden = true;
    note.textContent = "From a link, which carries no picture.";
  }
  note.hidden = false;
}

// What is served

async function load() {
  try {
    state.info = await server.getInfo();
  } catch (problem) {
    if (problem.status !== 401) byId("served").textContent = problem.status === 409 ? "no index yet" : "not connected";
    if (problem.status === 409) byId("map-note").textContent = "There is no index to draw yet.";
    complain(problem, start);
    return false;
  }
  const { run, items, examples, labels } = state.info;
  setPictures(state.info);
  byId("served").textContent = `${run} · ${items.toLocaleString("en")} indexed ${noun()}`;
  const chosen = byId("label").value;
  byId("label").replaceChildren(
    make("option", { value: "" }, "all labels"),
    ...Object.entries(labels).filter(([name]) => name !== "")
      .map(([name, number]) => make("option", { value: name }, `${name} (${number.toLocaleString("en")})`)),
  );
  setOptions({ ...options(), label: chosen });
  offerGroups(state.info);
  byId("examples").replaceChildren(...examples.map(example));
  await loadClasses().catch(() => null); // without them nothing is taught
  await loadMap();
  return true;
}

function example({ id, label }) {
  const image = tile(id);
  const button = make(
    "button",
    { type: "button", "aria-label": `Search from an example of ${label || "no label"}`, title: id, onclick: () => ask({ item: id }) },
    image, make("span", {}, label || "no label"),
  );
  return make("li", {}, button);
}

async function loadMap() {
  try {
    const data = await server.getMap();
    map.setData(data);
    if (data.pending) setTimeout(loadMapAgain, MAP_AGAIN, data.way);
  } catch (problem) {
    byId("map-note").textContent = problem.message;
  }
}

async function loadMapAgain(before) {
  const data = await server.getMap().catch(() => null);
  if (data === null) return;
  if (data.way === before && data.pending) {
    setTimeout(loadMapAgain, MAP_AGAIN, before);
    return;
  }
  map.setData(data);
  if (state.query) await ask(state.query, { remember: false }); // its place is another now
}

async function start() {
  show("trouble", false);
  const { query, options: wanted } = readLink(location.hash);
  setOptions(wanted); // before the map, which may take a while: what is typed or asked meanwhile stays
  if (await load() && query && !state.query) await ask(query, { remember: false });
}

async function restore() {
  const { query, options: wanted } = readLink(location.hash);
  setOptions(wanted);
  if (query) await ask(query, { remember: false });
  else if (state.query) {
    state.query = null;
    showNothing();
    offerDownload(null);
    offerTeaching(null);
    hideQuery();
    map.setQuery(null, []);
  }
}

// The token

let afterLogin = start;
function logIn(retry) {
  afterLogin = retry;
  byId("served").textContent = "locked";
  if (!byId("login").open) byId("login").showModal();
}

byId("login").addEventListener("cancel", (event) => event.preventDefault());
byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  show("login-trouble", false);
  try {
    await server.logIn(byId("token").value);
    byId("token").value = "";
    byId("login").close();
    await afterLogin();
  } catch (problem) {
    byId("login-trouble").textContent = problem.status === 401 ? "This is not the token." : problem.message;
    show("login-trouble");
  }
});

// Ways to ask

const askFile = (file) => file && ask({ file });

byId("file").addEventListener("change", (event) => {
  askFile(event.target.files[0]);
  event.target.value = ""; // so that the same file can be chosen again
});
document.addEventListener("paste", (event) => askFile(event.clipboardData?.files[0]));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dragging");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dragging");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dragging");
  askFile(event.dataTransfer.files[0]);
});
for (const id of ["k", "label", "group", "self"]) {
  byId(id).addEventListener("change", () => state.query && ask(state.query));
}
onSwitch(() => state.query && ask(state.query));
byId("retry").addEventListener("click", () => state.retry?.());
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    byId("copy").textContent = "Copied";
    say("Link copied.");
    setTimeout(() => { byId("copy").textContent = "Copy link to this view"; }, 2000);
  } catch { // not every browser allows it everywhere: then by hand
    byId("address").value = location.href;
    show("address");
    byId("address").select();
  }
});
addEventListener("popstate", restore);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.redraw());

start();
