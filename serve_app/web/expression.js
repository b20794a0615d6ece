// What the face expresses: a choice and a strength, the same on both pages.

import { make } from "./dom.js";

const NAMES = ["neutral", "happy", "sad", "angry", "surprised", "fear", "disgust", "contempt", "serious"];

export class Expression {
  /** Fills `box` with the controls; `onChange(fields)` is called when a person changed one. */
  constructor(box, onChange = () => {}) {
    const title = (name) => name[0].toUpperCase() + name.slice(1);
    this.name = make("select", { id: "expression" }, ...NAMES.map((name) => make("option", { value: name }, title(name))));
    this.strength = make("input", { type: "range", id: "strength", min: "0.1", max: "1", step: "0.1", value: "0.7", disabled: true });
    box.append(make("label", {}, "Expression", this.name), make("label", {}, "Strength", this.strength));
    for (const one of [this.name, this.strength]) {
      one.addEventListener("change", () => {
        this.strength.disabled = this.name.value === NAMES[0];
        onChange(this.fields());
      });
    }
  }

  /** Fields of a request. */
  fields() {
    const expression = this.name.value;
    return expression === NAMES[0] ? { expression } : { expression, strength: Number(this.strength.value) };
  }

  /** The fields, unless the face is neutral as it is anyway. */
  wanted() {
    return this.name.value === NAMES[0] ? {} : this.fields();
  }
}
