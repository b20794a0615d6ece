// The little Markdown that descriptions in /openapi.json use, as nodes: paragraphs, lists, `code`.

import { make } from "./dom.js";

/** Text with `code` in it; `addresses` is a map of code -> address to link it to. */
export function inline(text, addresses = new Map()) {
  return text.split("`").map((part, index) => {
    if (index % 2 === 0) return part;
    const code = make("code", {}, part);
    const href = addresses.get(part);
    return href ? make("a", { href }, code) : code;
  });
}

/** Paragraphs and lists; lines of one paragraph are joined. */
export function blocks(text, addresses) {
  return text.trim().split(/\n{2,}/).map((block) => {
    const items = block.startsWith("* ") ? block.slice(2).split("\n* ") : null;
    if (items) return make("ul", {}, ...items.map((item) => make("li", {}, ...inline(item.replaceAll("\n", " "), addresses))));
    return make("p", {}, ...inline(block.replaceAll("\n", " "), addresses));
  });
}
