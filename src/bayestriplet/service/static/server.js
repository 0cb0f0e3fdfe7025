// Requests to the server; what goes wrong becomes a sentence.

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const GONE = "The server does not answer. Is “bayestriplet serve” still running, and the network there?";

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?!…]$/.test(whole) ? whole : `${whole}.`;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(GONE, 0);
  }
  if (response.ok) return response;
  let message = `The server answered with status ${response.status}`;
  try {
    message = (await response.json()).message;
  } catch { /* no JSON: the status has to do */ }
  throw new Problem(sentence(message), response.status);
}

// As a whole: a browser would shorten "a/../b" in an address.
export const itemPath = (id) => `/api/items/${encodeURIComponent(id)}`;
export const thumbnailPath = (id) => `${itemPath(id)}/image?thumbnail=true`;

export const getInfo = async () => (await ask("/api/info")).json();
export const getMap = async () => (await ask("/api/map")).json();
export const getItem = async (id) => (await ask(itemPath(id))).json();
export const getPicture = async (id) => (await ask(`${itemPath(id)}/image`)).blob();
export const logIn = (token) => ask("/api/session", { method: "POST", headers: { authorization: `Bearer ${token}` } });

export const getClasses = async () => (await ask("/api/classes")).json();

export async function teach(label, replays, undo = false) {
  const body = JSON.stringify({ label, replays, undo });
  return (await ask("/api/teach", { method: "POST", body, headers: { "content-type": "application/json" } })).json();
}

export async function search(query, options, signal) {
  const form = new FormData();
  if (query.file) form.set("image", query.file, query.file.name || "pasted image");
  else if (query.item !== undefined) form.set("item", query.item);
  else form.set("replay", query.replay);
  form.set("k", options.k);
  if (options.label) form.set("label", options.label);
  if (options.group) form.set("group", options.group);
  if (options.includeGroup) form.set("exclude_group", ""); // else the server leaves out that of an item
  form.set("exclude_self", options.excludeSelf ? "true" : "false");
  return (await ask("/api/search", { method: "POST", body: form, signal })).json();
}
