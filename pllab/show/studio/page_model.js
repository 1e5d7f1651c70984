// The stand-in for a kernel in an exported page: it keeps what is chosen, and hands out the one file it has.

class PageModel {
  constructor({ plain, bytes, file }) {
    const read = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    this.values = { ...plain, ...Object.fromEntries(Object.entries(bytes).map(([name, text]) => [name, read(text)])) };
    this.file = file;
    this.reacts = {};
  }
  get(name) { return this.values[name]; }
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    for (const react of this.reacts[name] ?? []) react();
    if (name !== "order") return;
    this.values.file = this.file.text;
    this.set("delivery", { name: this.file.name, type: this.file.type, number: value.number });
  }
  save_changes() {}
  on(event, react) { (this.reacts[event.replace("change:", "")] ??= []).push(react); }
  off() {}
}
const page = new PageModel(JSON.parse(document.querySelector("#state").textContent));
render({ model: page, el: document.querySelector("#widget") });
