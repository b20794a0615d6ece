// /openapi.json as a page: what each route takes, an example to copy, what it answers.

import { byId, make, showProblem } from "./dom.js";
import { asProblem, getJson } from "./api.js";
import { curl } from "./curl.js";
import { blocks, inline } from "./prose.js";
import { installTheme } from "./theme.js";

const METHODS = ["get", "post", "patch", "delete"];
const addresses = new Map(); // "POST /generate" -> "#generate_generate_post"

const words = (text) => make("span", {}, ...inline(text ?? "", addresses));

function resolve(spec, schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? spec.components.schemas[name] : schema;
}

function typeText(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return schema.anyOf.map(typeText).filter((text) => text !== "null").join(" | ");
  if (schema.format === "binary") return "file";
  if (schema.contentEncoding) return schema.contentEncoding;
  if (schema.type === "array") return "list";
  const kind = schema.format ?? schema.type ?? "object";
  return schema.minimum !== undefined && schema.maximum <= 1e6 ? `${kind}, ${schema.minimum} to ${schema.maximum}` : kind;
}

function table(head, rows) {
  const line = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));
  return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, line("th", head)), make("tbody", {}, ...rows.map((row) => line("td", row)))));
}

const heading = (text) => make("h3", {}, text);
const code = (text) => make("code", {}, String(text));
const more = (schema, needed) => (needed ? ", needed" : (schema.default ?? null) !== null ? `, default ${schema.default}` : "");

function fields(schema) {
  const needed = schema.required ?? [];
  return table(["Field", "Type", "Meaning"], Object.entries(schema.properties ?? {}).map(([name, one]) => [
    code(name), typeText(one) + more(one, needed.includes(name)), words(one.description),
  ]));
}

function parameters(found) {
  if (!found?.length) return [];
  const rows = found.map((one) => [code(one.name), typeText(one.schema) + more(one.schema, false), words(one.description)]);
  return [heading(found.some((one) => one.in === "header") ? "In the address and the headers" : "In the address"), table(["Name", "Type", "Meaning"], rows)];
}

function answers(responses) {
  return Object.entries(responses).map(([status, answer]) => {
    const kinds = Object.keys(answer.content ?? {});
    const example = answer.content?.["application/problem+json"]?.example;
    return [code(status), kinds.join(", "), make("span", {}, answer.description, example ? make("details", {}, make("summary", {}, make("span", { className: "fine" }, "example")), make("pre", {}, JSON.stringify(example, null, 2))) : "")];
  });
}

function next(responses) {
  const links = Object.values(responses["200"]?.links ?? {});
  if (!links.length) return [];
  const items = links.map((one) => make("li", {}, make("a", { href: `#${one.operationId}` }, one.description)));
  return [heading("What comes next"), make("ul", {}, ...items)];
}

function card(id, method, path, found, ...inside) {
  const head = make("summary", {}, make("span", { className: "method" }, method.toUpperCase()), make("span", { className: "path" }, path), make("span", { className: "fine" }, found.summary));
  return make("details", { className: "card", id }, head, ...blocks(found.description ?? "", addresses), ...inside);
}

function operation(spec, path, method, found) {
  const inside = [];
  if (found.security) inside.push(make("p", { className: "fine" }, `Needs a key with the scope ${found.security.flatMap((one) => one.key).join(" or ")}.`));
  const content = found.requestBody?.content ?? {};
  const form = resolve(spec, (content["multipart/form-data"] ?? content["application/json"])?.schema);
  if (found.requestBody) inside.push(heading(`Body: ${Object.keys(content).join(" or ")}`));
  if (form) inside.push(fields(form));
  inside.push(...parameters(found.parameters));
  const good = Object.entries(found.responses).find(([status]) => status < 300)?.[1];
  const schema = resolve(spec, good?.content?.["application/json"]?.schema);
  if (schema?.properties) inside.push(heading("Answer"), fields(schema));
  inside.push(...next(found.responses));
  inside.push(heading("Example"), make("pre", { tabIndex: 0 }, curl(path, method, found)));
  inside.push(heading("Answers"), table(["Status", "Content", "Meaning"], answers(found.responses)));
  return card(found.operationId, method, path, found, ...inside);
}

function socket(path, found) {
  const messages = (all) => table(["Message", "Meaning"], all.map((one) => [one.message.startsWith("{") ? code(one.message) : one.message, words(one.description)]));
  const query = found.parameters.filter((one) => one.in === "query").map((one) => `${one.name}=${one.schema.default}`).join("&");
  const address = `${location.origin.replace(/^http/, "ws")}${path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase())}?${query}`;
  return card(path, "ws", path, found,
    ...parameters(found.parameters),
    heading("You send"), messages(found.sent),
    heading("You receive"), messages(found.received),
    heading("Example"), make("pre", { tabIndex: 0 }, address),
    heading("Why it is closed"), table(["Code", "Meaning"], found.closes.map((one) => [code(one.code), words(one.description)])));
}

function kindRows(found) {
  return found.map((one) => [code(one.type.split("/").pop()), code(one.status), make("span", {}, `${one.title}. `, words(one.detail))]);
}

function errors(spec, kinds) {
  return make("section", { className: "card", id: "errors" },
    heading("Errors: application/problem+json (RFC 9457)"), fields(spec.components.schemas.Problem),
    make("details", { id: "kinds" }, make("summary", {}, "All kinds of errors, and what to do"), table(["Code", "Status", "Meaning"], kindRows(kinds))));
}

function operations(spec) {
  return Object.entries(spec.paths).flatMap(([path, methods]) => METHODS.filter((one) => methods[one]).map((method) => [path, method, methods[method]]));
}

function render(spec, kinds) {
  const routes = operations(spec);
  const sockets = Object.entries(spec["x-websockets"] ?? {});
  for (const [path, method, found] of routes) addresses.set(`${method.toUpperCase()} ${path}`, `#${found.operationId}`);
  for (const [path] of sockets) addresses.set(`WS ${path}`, `#${path}`);
  addresses.set("/problems", "#kinds");
  const sections = spec.tags.flatMap(({ name, description }) => [
    make("div", { className: "group" }, make("h2", {}, name[0].toUpperCase() + name.slice(1)), blocks(description, addresses)[0]),
    ...routes.filter((one) => one[2].tags[0] === name).map((one) => operation(spec, ...one)),
    ...sockets.filter((one) => one[1].tags[0] === name).map((one) => socket(...one)),
  ]);
  byId("doc").replaceChildren(make("div", { className: "lead" }, ...blocks(spec.info.description, addresses)), ...sections, errors(spec, kinds));
}

/** Open what the address names. */
function openNamed() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found instanceof HTMLDetailsElement) found.open = true;
  found?.scrollIntoView();
}

async function load() {
  const [spec, kinds] = await Promise.all([getJson("/openapi.json"), getJson("/problems")]);
  render(spec, kinds.problems);
  addEventListener("hashchange", openNamed);
  openNamed();
}

installTheme();
load().catch((error) => {
  const box = make("div", { className: "alert", role: "alert" });
  byId("doc").replaceChildren(box);
  showProblem(box, asProblem(error));
});
