// The stand-in for a kernel in a hand-out: it keeps what is chosen, and answers from runs made beforehand.

class PageModel {
  constructor({ values, runs }, blocks) {
    this.values = values;
    this.runs = runs; // "family|ranks|micro-batches" -> numbers and CSV
    this.blocks = blocks; // the same -> bytes of the actions
    this.reacts = {};
    this.answer(values, {});
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
    if (changed.includes("order")) this.deliver();
    if (changed.some((name) => this.values.options.inputs.includes(name))) this.answer(this.values, { stamp: this.values.stamp });
    for (const name of changed) this.tell(`change:${name}`);
  }
  tell(event, ...words) {
    for (const react of [...(this.reacts[event] ?? [])]) react(...words);
  }
  on(event, react) {
    (this.reacts[event] ??= []).push(react);
  }
  off(event, react) {
    this.reacts[event] = (this.reacts[event] ?? []).filter((one) => one !== react);
  }
  keyOf(family, { num_ranks, num_microbatches }) {
    return `${family}|${num_ranks}|${num_microbatches}`;
  }
  /** What the kernel would say to these inputs. */
  picture(inputs) {
    const keys = [this.keyOf(inputs.family, inputs), this.keyOf(inputs.compare, inputs), "measured"];
    const own = this.runs.measured && this.runs.measured.title === this.runs[keys[0]]?.title;
    const shown = keys.map((key, at) => (at === 2 && !own ? undefined : this.runs[key]));
    return { runs: shown.map((run) => run ?? null), blocks: keys.map((key, at) => (shown[at] ? this.blocks[key] : new DataView(new ArrayBuffer(0)))) };
  }
  answer(inputs, stamp) {
    const { runs, blocks } = this.picture(inputs);
    const missing = `the page has no ${inputs.family} for ${inputs.num_ranks} ranks and ${inputs.num_microbatches} micro-batches; choose another size`;
    if (runs[0]) [this.values.actions, this.values.compared, this.values.measured] = blocks;
    const view = runs[0] ? { runs, problem: "" } : { ...this.values.view, problem: missing };
    this.values.view = { ...view, ...stamp, number: (this.values.view.number ?? 0) + 1 };
    this.values.path = new DataView(new ArrayBuffer(0));
    this.tell("change:view");
  }
  send({ ahead, about }) {
    const inputs = JSON.parse(ahead ?? about);
    const { runs, blocks } = this.picture(inputs);
    const none = new DataView(new ArrayBuffer(0));
    const said = about ? [{ about, run: runs[0] }] : [{ ahead, view: runs[0] && { runs, problem: "" } }, [...blocks, none]];
    queueMicrotask(() => this.tell("msg:custom", ...said));
  }
  deliver() {
    const { family, order } = this.values;
    const { csv, file } = this.runs[this.keyOf(family, this.values)];
    this.values.file = csv;
    this.values.delivery = { name: `${file}.csv`, type: "text/csv", number: order.number };
    this.tell("change:delivery");
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
const blocks = Object.fromEntries(Object.keys(state.runs).map((key, at) => {
  const size = state.sizes[at];
  offset += size;
  return [key, new DataView(packed, offset - size, size)];
}));
render({ model: new PageModel(state, blocks), el: document.querySelector("#widget") });
