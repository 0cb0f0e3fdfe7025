// The description of the API, made readable.

import { byId, make } from "./element.js";

const kind = (schema) =>
  schema.$ref?.split("/").pop() ?? (schema.anyOf ? schema.anyOf.map(kind).join(" or ")
    : schema.type === "array" ? `list of ${kind(schema.items ?? schema.prefixItems?.[0] ?? {})}` : schema.type ?? "any");

function table(caption, rows) {
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))));
  return make("table", {}, make("caption", {}, caption), make("tbody", {}, ...body));
}

function fields(schema, schemas) {
  const whole = schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema;
  return Object.entries(whole.properties ?? {}).map(([name, one]) => [name, kind(one), one.description ?? ""]);
}

function operation(path, method, described, schemas) {
  const parts = [make("h2", {}, make("code", {}, `${method.toUpperCase()} ${path}`)), make("p", {}, described.summary)];
  if (described.parameters) {
    parts.push(table("Parameters", described.parameters.map((one) => [one.name, kind(one.schema), one.description ?? ""])));
  }
  const form = described.requestBody?.content["multipart/form-data"]?.schema;
  if (form) parts.push(table("Form", fields(form, schemas)));
  const answer = described.responses["200"]?.content?.["application/json"]?.schema;
  if (answer) {
    const rows = fields(answer, schemas);
    if (rows.length) parts.push(table("Answer, JSON", rows));
  }
  parts.push(table("Status", Object.entries(described.responses).map(([status, one]) => [status, one.description])));
  return make("section", { class: "panel" }, ...parts);
}

const description = await (await fetch("/openapi.json")).json();
byId("about").textContent = `${description.info.description} Version ${description.info.version}.`;
byId("example").textContent = `curl -F image=@query.png -F k=5 ${location.origin}/api/search`;
byId("operations").append(
  ...Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => operation(path, method, described, description.components.schemas))),
);
