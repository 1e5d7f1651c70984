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

/**
 * The longest form of a label that fits a box, as its lines and their scale: `2F3`, `F3`, F above 3, or nothing.
 * All numbers count as having `digits`, so that boxes of one width look alike.
 */
function labelThatFits(label, width, height, size, digits) {
  const short = label.replace(/^\d+/, "");
  const more = digits - short.length + 1.3; // a third of a letter for W, which is wide
  const whole = (text, scale) => (text.length + more) * size * scale * 0.62 + 3 <= width && size * scale <= height;
  for (const text of [label, short]) for (const scale of [1, 0.85]) if (whole(text, scale)) return { lines: [text], scale };
  const isNarrow = digits * size * 0.72 * 0.62 > width || size * 1.7 > height;
  return { lines: isNarrow ? [] : [short[0], short.slice(1)], scale: 0.72 };
}

/** The slab of idle time as an SVG pattern. */
function idlePattern(id) {
  const ground = shape("rect", { width: 10, height: 10, style: "fill: var(--look-idle)" });
  const stripe = shape("path", { d: "M-2 2L2 -2M0 10L10 0M8 12L12 8", style: "stroke: var(--look-idle_stripe); stroke-width: 1.4" });
  return shape("pattern", { id, width: 10, height: 10, patternUnits: "userSpaceOnUse" }, ground, stripe);
}
