// The view as the part of the address behind "#", which browsers never send to a server.

const SMALL = 40; // pixels a side of the query's picture in a link

export function writeLink(query, options) {
  const parts = new URLSearchParams();
  if (query.item !== undefined) parts.set("item", query.item);
  else parts.set("replay", query.replay);
  if (query.item === undefined && query.name) parts.set("name", query.name);
  if (query.item === undefined && query.small) parts.set("picture", query.small);
  parts.set("k", options.k);
  if (options.label) parts.set("label", options.label);
  if (options.group) parts.set("group", options.group);
  if (options.includeGroup) parts.set("own-group", "in");
  if (!options.excludeSelf) parts.set("self", "in");
  return `#${parts}`;
}

export function readLink(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const options = {
    k: parts.get("k") ?? "10",
    label: parts.get("label") ?? "",
    group: parts.get("group") ?? "",
    includeGroup: parts.get("own-group") === "in",
    excludeSelf: parts.get("self") !== "in",
  };
  if (parts.has("item")) return { query: { item: parts.get("item") }, options };
  if (!parts.has("replay")) return { query: null, options };
  const small = parts.get("picture") ?? "";
  const query = { replay: parts.get("replay"), name: parts.get("name") ?? "an image", small };
  return { query, options };
}

// A JPEG of a few hundred bytes, in base64: what a link can carry of a picture.
export async function shrink(blob) {
  const image = await createImageBitmap(blob);
  const canvas = document.createElement("canvas");
  const scale = Math.min(1, SMALL / Math.max(image.width, image.height));
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.7).split(",")[1];
}

export function toBlob(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Blob([bytes], { type: bytes[0] === 0x89 ? "image/png" : "image/jpeg" });
}
