// Pictures of items; where the items are vectors there are none, and their ids stand in their place.

import { byId, make, picture, show } from "./element.js";
import { thumbnailPath } from "./server.js";

let there = true;

export const havePictures = () => there;
export const noun = () => (there ? "images" : "vectors");

export function tile(id) {
  if (!there) return make("span", { class: "tile" }, id);
  return picture(make("img", { src: thumbnailPath(id), alt: "", loading: "lazy" }));
}

// An index of vectors cannot be asked about an image: what offers that is hidden.
export function setPictures({ pictures, needs }) {
  there = pictures;
  show("drop", there);
  if (there) return;
  byId("answer-title").textContent = "Nearest vectors";
  byId("empty").lastElementChild.textContent =
    `Click one of the examples, or a point of the map. This run takes ${needs}; from a file, search with the command line.`;
  document.querySelector("label[for=self]").textContent = "Leave out the query itself";
}
