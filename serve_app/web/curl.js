// A line to copy for each route. An error is an exit code and a text, and never lands in a file that was good.

function output(path, type) {
  if (type === "video/mp4") return path === "/generate" ? "-o talking.mp4" : "-o result.mp4"; // never a file of another route
  return { "image/jpeg": "-o preview.jpg", "text/event-stream": "-N" }[type];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function form(content) {
  const example = content?.examples?.default?.value ?? content?.example;
  return Object.entries(example ?? {}).map(([name, value]) => {
    const file = /^\((.*)\)$/.exec(value);
    return `-F ${quoted(`${name}=${file ? `@${file[1]}` : value}`)}`;
  });
}

function body(content) {
  const parts = form(content["multipart/form-data"]);
  if (parts.length) return parts;
  const json = content["application/json"]?.example;
  if (json) return ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(json))}`];
  const type = Object.keys(content)[0];
  return [`-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary @offer.${type.split("/").pop()}`];
}

/** `curl ...` for one operation; what stands in capitals in the address is to be filled in. */
export function curl(path, method, found) {
  const address = `${location.origin}${path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase())}`;
  const sent = found.requestBody ? body(found.requestBody.content) : [];
  const implied = method === "get" || (method === "post" && sent.length > 0);
  const key = found.security ? [`-H "Authorization: Bearer $LIVEANCHOR_API_KEY"`] : [];
  const good = Object.keys(found.responses["200"]?.content ?? {}).map((type) => output(path, type)).filter(Boolean);
  return ["curl --fail-with-body -sS", ...(implied ? [] : [`-X ${method.toUpperCase()}`]), address, ...key, ...sent, ...good].join(" ");
}
