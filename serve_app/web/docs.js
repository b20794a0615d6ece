// /openapi.json as a page: what each route takes, an example to copy, what it answers.

import { byId, make, showProblem } from "./dom.js";
import { asProblem, getJson } from "./api.js";

const METHODS = ["get", "post", "patch", "delete"];

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
  return schema.format ?? schema.type ?? "object";
}

function table(head, rows) {
  const line = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));
  return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, line("th", head)), make("tbody", {}, ...rows.map((row) => line("td", row)))));
}

function fields(schema) {
  const needed = schema.required ?? [];
  return table(["Field", "Type", "Meaning"], Object.entries(schema.properties ?? {}).map(([name, one]) => [
    make("code", {}, name),
    typeText(one) + (needed.includes(name) ? ", needed" : one.default !== undefined ? `, default ${one.default}` : ""),
    one.description ?? "",
  ]));
}

function curl(path, method, body) {
  const parts = [`curl ${location.origin}${path}`];
  if (method === "delete" || method === "patch") parts.push(`-X ${method.toUpperCase()}`);
  const form = body?.content["multipart/form-data"];
  const example = form?.examples?.default?.value ?? form?.example;
  for (const [name, value] of Object.entries(example ?? {})) {
    const file = /^\((.*)\)$/.exec(value);
    parts.push(`-F '${name}=${file ? `@${file[1]}` : value}'`);
  }
  if (path === "/generate") parts.push("-o talking.mp4");
  return parts.join(" ");
}

function answers(spec, responses) {
  return Object.entries(responses).map(([status, answer]) => {
    const kinds = Object.keys(answer.content ?? {});
    const example = answer.content?.["application/problem+json"]?.example;
    return [make("code", {}, status), kinds.join(", "), make("span", {}, answer.description, example ? make("details", {}, make("summary", {}, make("span", { className: "fine" }, "example")), make("pre", {}, JSON.stringify(example, null, 2))) : "")];
  });
}

function operation(spec, path, method, found) {
  const inside = [make("p", {}, (found.description ?? "").replaceAll("`", ""))];
  const form = resolve(spec, found.requestBody?.content["multipart/form-data"]?.schema);
  if (form) inside.push(make("h3", {}, `Body: ${Object.keys(found.requestBody.content).join(" or ")}`), fields(form));
  if (found.parameters) {
    inside.push(make("h3", {}, "In the address"), table(["Name", "Type", "Meaning"], found.parameters.map((one) => [make("code", {}, one.name), typeText(one.schema), one.description ?? ""])));
  }
  const good = resolve(spec, (found.responses["200"] ?? found.responses["201"])?.content?.["application/json"]?.schema);
  if (good?.properties) inside.push(make("h3", {}, "Answer"), fields(good));
  inside.push(make("h3", {}, "Example"), make("pre", { tabIndex: 0 }, curl(path, method, found.requestBody)));
  inside.push(make("h3", {}, "Answers"), table(["Status", "Content", "Meaning"], answers(spec, found.responses)));
  const head = make("summary", {}, make("span", { className: "method" }, method.toUpperCase()), make("span", { className: "path" }, path), make("span", { className: "fine" }, found.summary));
  return make("details", { className: "card" }, head, ...inside);
}

function render(spec) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const method of METHODS.filter((one) => methods[one])) {
      const group = methods[method].tags?.[0] ?? "other";
      groups.set(group, [...(groups.get(group) ?? []), operation(spec, path, method, methods[method])]);
    }
  }
  const problem = make("section", { className: "card" }, make("h3", {}, "Errors: application/problem+json (RFC 9457)"), fields(spec.components.schemas.Problem));
  byId("doc").replaceChildren(
    make("p", { className: "lead" }, spec.info.description.replaceAll("`", "").replace(/([^\n])\n(?!\n)/g, "$1 ")),
    ...[...groups].flatMap(([name, all]) => [make("h2", {}, name[0].toUpperCase() + name.slice(1)), ...all]),
    problem,
  );
}

getJson("/openapi.json").then(render).catch((error) => {
  const box = make("div", { className: "alert", role: "alert" });
  byId("doc").replaceChildren(box);
  showProblem(box, asProblem(error));
});
