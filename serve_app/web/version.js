// Which LiveAnchor serves a page.

import { byId } from "./dom.js";
import { Problem, getJson } from "./api.js";

/** Write it into the page's foot; a service that does not answer leaves that empty. */
export function showVersion() {
  getJson("/version")
    .then((found) => { byId("version").textContent = `LiveAnchor ${found.version}`; })
    .catch((error) => { if (!(error instanceof Problem)) throw error; });
}
