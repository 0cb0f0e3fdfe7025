// Elements made of data: text is always text, never markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function show(id, shown = true) {
  byId(id).hidden = !shown;
}

// A text that breaks after / and _ before it breaks elsewhere, as paths should.
export const breakable = (text) => text.split(/(?<=[/_])/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));

// Names and values of a list of facts, without those that are empty.
export const facts = (given) =>
  Object.entries(given).filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...breakable(value))]);

// A picture of few pixels is drawn with its pixels, not blurred.
export function picture(image) {
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 64));
  return image;
}
