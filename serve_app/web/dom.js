// Small helpers around the page.

export const byId = (id) => document.getElementById(id);

/** Make an element; `children` are nodes or text, never markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function show(element, visible) {
  element.hidden = !visible;
}

/** 65.4 -> "1:05". */
export function clockText(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Call `take` with the first file that is dropped onto the element. */
export function acceptDrops(element, take) {
  const hover = (on) => element.classList.toggle("over", on);
  element.addEventListener("dragover", (event) => { event.preventDefault(); hover(true); });
  element.addEventListener("dragleave", () => hover(false));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    hover(false);
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}

/** Show an error in a box, bring it into view and put the focus there; for what a person has just asked for. */
export function raiseProblem(box, problem, retry) {
  showProblem(box, problem, retry);
  box.tabIndex = -1;
  box.focus({ preventScroll: true });
  box.scrollIntoView({ block: "center" }); // what it is about stands above it; this also ends a scroll that is under way
}

/** Show an error in a box; null clears it. `retry` adds a button. */
export function showProblem(box, problem, retry) {
  box.replaceChildren();
  show(box, problem !== null);
  if (problem === null) return;
  box.append(make("strong", {}, problem.title));
  if (problem.text) box.append(make("span", { className: "more" }, problem.text));
  if (problem.requestId) box.append(make("span", { className: "id" }, `Request ${problem.requestId}`));
  if (retry) box.append(make("button", { type: "button", onclick: retry }, "Try again"));
}
