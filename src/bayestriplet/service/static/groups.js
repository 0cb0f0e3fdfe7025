// Groups (patients, slides): the field that asks for one, and the line that says which one is left out.

import { byId, make, show } from "./element.js";

const control = byId("left-out-switch");
let included = false; // items of the query's own group

export const groupOptions = () => ({ group: byId("group").value.trim(), includeGroup: included });

export function setGroupOptions({ group, includeGroup }) {
  byId("group").value = group;
  included = includeGroup;
}

// Suggestions; with more groups than the server names, any other can be typed.
export function offerGroups({ groups, group_count: number }) {
  byId("groups").replaceChildren(...groups.map((name) => make("option", { value: name })));
  show("group-option", number > 0 || byId("group").value !== "");
  byId("group").placeholder = `all groups (${number.toLocaleString("en")})`;
}

export function showLeftOut(answer, item) {
  const name = answer.excluded_group ?? item?.group ?? "";
  const shown = name !== "" && (answer.excluded_group !== null || included) && byId("group").value === "";
  show("left-out", shown);
  if (!shown) return "";
  const text = `Items of group ${name} (patient or slide) are ${included ? "included" : "left out"}.`;
  byId("left-out-text").textContent = text;
  control.textContent = included ? "Leave them out" : "Include them";
  return text;
}

export function onSwitch(ask) {
  control.addEventListener("click", () => {
    included = !included;
    ask();
  });
}
