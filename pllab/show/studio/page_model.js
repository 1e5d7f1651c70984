// The stand-in for a kernel in a hand-out: it keeps what is chosen, and answers from runs made beforehand.

class PageModel {
  constructor({ values, runs }) {
    this.values = values;
    this.runs = runs; // by "family|ranks|micro-batches"
    this.reacts = {};
    this.answer();
  }
  get(name) {
    return this.values[name];
  }
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    (this.changed ??= new Set()).add(name);
  }
  save_changes() {
    const changed = [...(this.changed ?? [])];
    this.changed = null;
    if (changed.includes("stamp")) this.answer();
    for (const name of changed) this.tell(`change:${name}`);
  }
  tell(event) {
    for (const react of [...(this.reacts[event] ?? [])]) react();
  }
  on(event, react) {
    (this.reacts[event] ??= []).push(react);
  }
  off(event, react) {
    this.reacts[event] = (this.reacts[event] ?? []).filter((one) => one !== react);
  }
  keyOf(family) {
    return `${family}|${this.values.num_ranks}|${this.values.num_microbatches}`;
  }
  /** What the kernel would say: the runs at this size, and which families the page has not. */
  answer() {
    const { family, compare, num_ranks: ranks, num_microbatches: microbatches, options, stamp, view } = this.values;
    const missing = {};
    for (const { name } of options.families) {
      if (!this.runs[this.keyOf(name)]) missing[name] = `the page has no ${name} for ${ranks} ranks and ${microbatches} micro-batches; choose another size`;
    }
    const problem = missing[family] ?? "";
    const keys = [this.keyOf(family), this.keyOf(compare), "measured"];
    const isOwn = this.values.with_run && this.runs.measured?.title === this.runs[keys[0]]?.title;
    const runs = keys.map((key, at) => ((at < 2 || isOwn) && this.runs[key]) || null);
    this.values.view = { runs: problem ? view.runs : runs, problem, missing, stamp };
    this.tell("change:view");
  }
}

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

const packed = await inflate(document.querySelector("#state").textContent);
const length = new DataView(packed).getUint32(0, true);
const state = JSON.parse(new TextDecoder().decode(new Uint8Array(packed, 4, length)));
let offset = 4 + length;
Object.values(state.runs).forEach((run, at) => {
  const size = state.sizes[at];
  run.actions = new DataView(packed, offset, size);
  offset += size;
});
render({ model: new PageModel(state), el: document.querySelector("#widget") });
