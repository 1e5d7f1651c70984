// Boxes of work and slabs of idle time, as boxes.py draws them on paper. Python puts this behind view.js where it is used.

/** The style of a kind's boxes, by the properties of the look: a theme that changes repaints without drawing. */
function paintOf(kind, isLater = false) {
  return `--fill: var(--look-${kind}${isLater ? "-later" : ""}, var(--look-over)); --line: var(--look-${kind}-line, var(--look-over))`;
}

/** A box of work in SVG: a tint with an outline, a bar on top of a forward and at the foot of a backward. */
function workShapes(kind, isLater, { x, y, width, height }) {
  const style = paintOf(kind, isLater);
  const inner = { x: x + 0.5, y: y + 0.5, width: Math.max(0.5, width - 1), height: height - 1 };
  const box = shape("rect", { class: "pl-box", ...inner, style });
  const bar = { F: y, B: y + height - 3, I: y + height - 3 }[kind];
  return bar === undefined ? [box] : [box, shape("rect", { class: "pl-foot", x, y: bar, width, height: 3, style })];
}

const SMALL = 0.72; // the size of letters above each other

/** The longest form of a label that fits a box, as its lines: `2F3`, `F3`, F above 3, or nothing. */
function labelThatFits(label, width, height, size) {
  const short = label.replace(/^\d+/, "");
  const whole = [label, short].find((text) => text.length * size * 0.62 + 4 <= width && size <= height);
  if (whole) return [whole];
  const number = short.slice(1);
  return number.length * size * SMALL * 0.62 <= width && size * 1.7 <= height ? [short[0], number] : [];
}

/** The slab of idle time as an SVG pattern. */
function idlePattern(id) {
  const ground = shape("rect", { width: 9, height: 9, style: "fill: var(--look-idle)" });
  const stripe = shape("path", { d: "M-2 2L2 -2M0 9L9 0M7 11L11 7", style: "stroke: var(--look-idle_stripe)" });
  return shape("pattern", { id, width: 9, height: 9, patternUnits: "userSpaceOnUse" }, ground, stripe);
}
