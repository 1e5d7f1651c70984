// Schedules on a canvas. Python puts this text between common.js and the studio's own module. No state is kept here:
// actions, a panel and paints go in, pixels come out.
//
// A panel is { left, width, top, row, from, to, band }: where its rows are, in CSS pixels, and which times are in view.
// `band` is [top, height] of a box as shares of its row; two panels with other bands lie in the same rows.

const KINDS = "FBIWCUR";
const BAND = [0.07, 0.86];

/** The columns of runs.py as typed arrays, by rank, then by start. */
function readActions(bytes) {
  const all = new Float32Array(copyOf(bytes));
  const count = all.length / 6;
  const [rank, stage, kind, microbatch, start, end] = Array.from({ length: 6 }, (_, row) => all.subarray(row * count, (row + 1) * count));
  const numRanks = count ? rank[count - 1] + 1 : 0;
  const first = new Int32Array(numRanks + 1); // the actions of rank r are first[r] to first[r + 1] - 1
  const lowest = new Int32Array(numRanks).fill(1e6); // the first stage of each rank
  let makespan = 0;
  for (let i = 0; i < count; i += 1) {
    first[rank[i] + 1] = i + 1;
    if (end[i] > makespan) makespan = end[i];
    if (stage[i] < lowest[rank[i]]) lowest[rank[i]] = stage[i];
  }
  for (let r = 1; r <= numRanks; r += 1) first[r] = Math.max(first[r], first[r - 1]);
  const numStages = stage.reduce((most, one) => Math.max(most, one + 1), 0);
  return { count, rank, stage, kind, microbatch, start, end, first, lowest, numRanks, numStages, makespan };
}

/** Places among the actions, as int32. */
const readPlaces = (bytes) => new Int32Array(copyOf(bytes));

/** The bytes of a trait or of a message, which arrive as a view or as a buffer, aligned. */
function copyOf(bytes) {
  const { buffer = bytes, byteOffset: at = 0, byteLength = 0 } = bytes ?? {};
  return buffer?.slice(at, at + byteLength) ?? new ArrayBuffer(0);
}

/** "F3", or "2F3" where a rank has several stages. */
function labelOf(actions, i, staged) {
  return `${staged ? actions.stage[i] : ""}${KINDS[actions.kind[i]]}${actions.microbatch[i]}`;
}

/** What waits for what, as pllab.schedule.needs states it: indices of actions; `sender` is the one on another rank. */
function linksOf(actions) {
  let index = null;
  const key = (stage, kind, microbatch) => (stage * 65536 + microbatch) * 8 + kind;
  const find = (stage, microbatch, ...kinds) => {
    if (!index) {
      index = new Map();
      for (let i = 0; i < actions.count; i += 1) index.set(key(actions.stage[i], actions.kind[i], actions.microbatch[i]), i);
    }
    return kinds.map((kind) => index.get(key(stage, kind, microbatch))).find((one) => one !== undefined);
  };
  const [F, B, I, W] = [0, 1, 2, 3];
  const ask = (i, towards) => {
    const [stage, microbatch, kind] = [actions.stage[i], actions.microbatch[i], actions.kind[i]];
    const needed = [find(stage, microbatch, F), find(stage + 1, microbatch, I, B)];
    const freed = find(stage - 1, microbatch, I, B);
    const back = [[find(stage - 1, microbatch, F)], needed, needed, [find(stage, microbatch, I)]];
    const on = [[find(stage + 1, microbatch, F), find(stage, microbatch, I, B)], [freed], [find(stage, microbatch, W), freed], []];
    return ((towards < 0 ? back : on)[kind] ?? []).filter((one) => one !== undefined);
  };
  const before = (i) => ask(i, -1);
  // an input that began later did not hold it up: the clocks of two measured ranks differ a little
  const sender = (i) => before(i).find((one) => actions.rank[one] !== actions.rank[i] && actions.start[one] <= actions.start[i]);
  return { before, after: (i) => ask(i, 1), sender };
}

function boxOf(actions, panel, i) {
  const scale = panel.width / (panel.to - panel.from);
  const [top, height] = panel.band ?? BAND;
  return {
    x: panel.left + (actions.start[i] - panel.from) * scale,
    y: panel.top + (actions.rank[i] + top) * panel.row,
    width: (actions.end[i] - actions.start[i]) * scale,
    height: height * panel.row,
  };
}

/** The last action of a rank that has started by a time, or the place before its first. */
function lastStarted({ first, start }, rank, time) {
  let [low, high] = [first[rank] - 1, first[rank + 1] - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (start[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The idle time before an action of a rank, or behind its last one. */
function gapBefore({ first, start, end, makespan }, rank, i) {
  const from = end.subarray(first[rank], i).reduce((most, one) => Math.max(most, one), 0);
  return { i, rank, from, to: i < first[rank + 1] ? start[i] : makespan };
}

/** What is under a point: { i } of an action, the gap there, or null. */
function spotAt(actions, panel, x, y) {
  const rank = Math.floor((y - panel.top) / panel.row);
  if (rank < 0 || rank >= actions.numRanks || x < panel.left || x > panel.left + panel.width) return null;
  const time = panel.from + ((x - panel.left) / panel.width) * (panel.to - panel.from);
  const i = lastStarted(actions, rank, time);
  if (i >= actions.first[rank] && time <= actions.end[i]) return { i };
  const gap = gapBefore(actions, rank, i + 1);
  return gap.from < time && time < gap.to ? gap : null;
}

/** A context in CSS pixels on a canvas as fine as the screen. */
function fitCanvas(canvas, width, height, ground) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  if (ground) ctx.fillStyle = ground; // a picture on clear ground would lose its pale words elsewhere
  if (ground) ctx.fillRect(0, 0, width, height);
  return ctx;
}

/** A repeating tile of the marks of a hatch, as fine as the screen. */
function tileOf(ctx, hatch, ink) {
  const ratio = window.devicePixelRatio || 1;
  const [size, marks] = MARKS[hatch];
  const tile = Object.assign(document.createElement("canvas"), { width: Math.round(size * ratio), height: Math.round(size * ratio) });
  const c = tile.getContext("2d");
  c.scale(tile.width / size, tile.height / size);
  c.strokeStyle = c.fillStyle = ink;
  for (const [, { d = "", cx, cy, r }] of marks) {
    const path = new Path2D(d);
    if (r) path.arc(cx, cy, r, 0, 7);
    c[r ? "fill" : "stroke"](path);
  }
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(size / tile.width, size / tile.height));
  return pattern;
}

/** Colours and patterns of the palette, ink and ground from the style sheet. */
function paintsOf(theme, root) {
  const style = getComputedStyle(root);
  const ink = (name) => style.getPropertyValue(name).trim();
  const ctx = document.createElement("canvas").getContext("2d");
  const of = (paint) => ({ ...paint, marks: paint.hatch ? tileOf(ctx, paint.hatch, "rgba(0,0,0,.45)") : null });
  return {
    kinds: [...KINDS].map((letter) => of(theme.paints[letter] ?? theme.illegal)),
    idle: tileOf(ctx, theme.idle.hatch, "rgba(140,140,140,.55)"),
    illegal: theme.illegal.fill,
    ink: ink("--pl-ink"), soft: ink("--pl-ink-2"), ground: ink("--pl-ground"),
    family: style.fontFamily,
  };
}

/** A word or a line, its middle at y. */
function write(ctx, text, x, y, font, paints, { colour = paints.ink, weight = 400, align = "left" } = {}) {
  Object.assign(ctx, { font: `${weight} ${font}px ${paints.family}`, fillStyle: colour, textAlign: align, textBaseline: "middle" });
  ctx.fillText(text, x, y);
}

/** The word left of a row, where it can be read. */
function writeHead(ctx, text, panel, r, font, paints) {
  if (panel.row >= 9) write(ctx, text, panel.left - 10, panel.top + (r + 0.5) * panel.row, Math.min(font, panel.row * 0.95), paints, { align: "right" });
}

function clipTo(ctx, ...box) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(...box);
  ctx.clip();
}

/** Rows of boxes; options: font (px), staged, heads (text left of each row), idle (whether it is hatched). */
function drawActions(ctx, actions, panel, paints, { font, staged, heads, idle = true }) {
  const [top, height] = panel.band ?? BAND;
  const right = panel.left + panel.width;
  const scale = panel.width / (panel.to - panel.from);
  const at = (time) => panel.left + (time - panel.from) * scale;
  for (let r = 0; heads && r < actions.numRanks; r += 1) writeHead(ctx, heads(r), panel, r, font, paints);
  clipTo(ctx, panel.left, panel.top, panel.width, panel.row * actions.numRanks);
  ctx.fillStyle = paints.idle;
  for (let r = 0; idle && r < actions.numRanks; r += 1) {
    const y = panel.top + (r + top) * panel.row;
    let reached = 0;
    for (let i = actions.first[r]; i <= actions.first[r + 1]; i += 1) {
      const start = i < actions.first[r + 1] ? actions.start[i] : actions.makespan;
      if ((start - reached) * scale > 0.5) ctx.fillRect(at(reached), y, (start - reached) * scale, height * panel.row);
      if (i < actions.first[r + 1] && actions.end[i] > reached) reached = actions.end[i];
    }
  }
  const high = height * panel.row;
  paints.kinds.forEach((paint, kind) => {
    ctx.fillStyle = paint.fill;
    for (let pass = 0; pass < (paint.marks ? 2 : 1); pass += 1) {
      if (pass) ctx.fillStyle = paint.marks;
      for (let i = 0; i < actions.count; i += 1) {
        if (actions.kind[i] !== kind) continue;
        const x = panel.left + (actions.start[i] - panel.from) * scale;
        const wide = (actions.end[i] - actions.start[i]) * scale;
        if (x > right || x + wide < panel.left || (pass && wide < 5)) continue;
        ctx.fillRect(x, panel.top + (actions.rank[i] + top) * panel.row, wide > 4 ? wide - 1 : wide, high);
      }
    }
  });
  if (staged) {
    ctx.fillStyle = "rgba(255,255,255,.6)"; // a pale foot tells the later stages of a rank from its first
    for (let i = 0; i < actions.count; i += 1) {
      if (actions.stage[i] === actions.lowest[actions.rank[i]]) continue;
      const { x, y, width } = boxOf(actions, panel, i);
      if (x < right && x + width > panel.left) ctx.fillRect(x, y + high * 0.84, width > 4 ? width - 1 : width, high * 0.16);
    }
  }
  const size = Math.min(font, high * 0.8);
  if (size >= 7) drawLabels(ctx, actions, panel, paints, size, staged);
  ctx.restore();
}

function drawLabels(ctx, actions, panel, paints, size, staged) {
  const scale = panel.width / (panel.to - panel.from);
  ctx.font = `600 ${size}px ${paints.family}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const digit = ctx.measureText("0").width;
  for (let i = 0; i < actions.count; i += 1) {
    const wide = (actions.end[i] - actions.start[i]) * scale - 3;
    if (wide < digit) continue;
    const letter = KINDS[actions.kind[i]];
    const fits = [labelOf(actions, i, staged), labelOf(actions, i, false), letter].find((text) => text.length * digit * 1.06 <= wide);
    if (!fits) continue;
    const { x, y, width, height } = boxOf(actions, panel, i);
    if (x > panel.left + panel.width || x + width < panel.left) continue;
    const paint = paints.kinds[actions.kind[i]];
    if (paint.marks) {
      ctx.fillStyle = paint.fill; // a plate keeps the letters clear of the pattern
      const plate = fits.length * digit + 4;
      ctx.fillRect(x + width / 2 - plate / 2, y + height / 2 - size * 0.6, plate, size * 1.2);
    }
    ctx.fillStyle = paint.text;
    ctx.fillText(fits, x + width / 2 - 0.5, y + height / 2 + size * 0.06);
  }
}

/** Staircases; options: font, unit (what one stage's micro-batch counts), share (what I frees), most, limit, heads. */
function drawHeld(ctx, actions, panel, paints, { font, unit, share, most, limit, heads }) {
  const scale = panel.width / (panel.to - panel.from);
  const steps = [1, -1, -share, share - 1];
  const high = panel.row * 0.8;
  for (let r = 0; r < actions.numRanks; r += 1) {
    const floor = panel.top + (r + 0.92) * panel.row;
    clipTo(ctx, panel.left, floor - panel.row, panel.width, panel.row + 1);
    let [held, peak, x] = [0, 0, panel.left];
    const level = () => floor - (held / most) * high;
    ctx.beginPath();
    ctx.moveTo(x, floor);
    for (let i = actions.first[r]; i < actions.first[r + 1]; i += 1) {
      const step = steps[actions.kind[i]] ?? 0;
      const next = panel.left + ((step > 0 ? actions.start[i] : actions.end[i]) - panel.from) * scale;
      if (step && next > x + 0.01) {
        ctx.lineTo(x, level()); // what changes at one moment is one step
        ctx.lineTo((x = next), level());
      }
      held += step * unit;
      peak = Math.max(peak, held);
    }
    ctx.lineTo(x, floor);
    Object.assign(ctx, { fillStyle: paints.soft, strokeStyle: paints.soft, lineWidth: 1.25, globalAlpha: 0.28 });
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.stroke();
    if (limit !== null && limit <= most) {
      const y = floor - (limit / most) * high;
      ctx.strokeStyle = paints.illegal;
      ctx.setLineDash([5, 3]);
      ctx.beginPath();
      ctx.moveTo(panel.left, y);
      ctx.lineTo(panel.left + panel.width, y);
      ctx.stroke();
    }
    ctx.restore();
    writeHead(ctx, heads(r, peak), panel, r, font, paints);
  }
}

/** Round times below a panel. */
function drawAxis(ctx, panel, y, paints, font) {
  const span = panel.to - panel.from;
  const most = Math.max(2, Math.floor(panel.width / (font * 7)));
  const power = 10 ** Math.floor(Math.log10(span / most));
  const size = power * ([1, 2, 5, 10].find((factor) => power * factor * most >= span * 0.9999) ?? 10);
  ctx.strokeStyle = ctx.fillStyle = paints.soft;
  ctx.lineWidth = 1;
  ctx.font = `${font}px ${paints.family}`;
  ctx.textBaseline = "top";
  ctx.beginPath();
  ctx.moveTo(panel.left, y + 0.5);
  ctx.lineTo(panel.left + panel.width, y + 0.5);
  for (let n = Math.max(0, Math.ceil(panel.from / size - 1e-6)); n * size <= panel.to + span * 1e-6; n += 1) {
    const x = panel.left + ((n * size - panel.from) / span) * panel.width;
    ctx.moveTo(x, y);
    ctx.lineTo(x, y + 5);
    ctx.textAlign = x > panel.left + panel.width - font * 1.5 ? "right" : "center";
    ctx.fillText(writeSeconds(n * size, 6), x, y + 8);
  }
  ctx.stroke();
}

/** An arrow from the end of box a to the start of box b. */
function drawLink(ctx, a, b, colour, dashed, ground) {
  const level = Math.abs(a.y - b.y) < 1; // over the boxes between them instead of through
  const [x1, y1] = level ? [a.x + a.width - 4, a.y] : [a.x + a.width, a.y + a.height / 2];
  const [x2, y2] = level ? [b.x + 4, b.y] : [b.x, b.y + b.height / 2];
  const bend = Math.max(10, Math.abs(x2 - x1) / 2);
  const lift = Math.min(22, a.height * 0.7);
  ctx.save();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  if (level) ctx.bezierCurveTo(x1 + 4, y1 - lift, x2, y2 - lift, x2, y2 - 5);
  else ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
  for (const [stroke, width] of [[ground, 5], [colour, 2]]) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width;
    if (dashed && stroke === colour) ctx.setLineDash([5, 3]);
    ctx.stroke();
  }
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.moveTo(x2, y2);
  ctx.lineTo(x2 - (level ? 4.5 : 7), y2 - (level ? 7 : 4.5));
  ctx.lineTo(x2 + (level ? 4.5 : -7), y2 + (level ? -7 : 4.5));
  ctx.fill();
  ctx.restore();
}

/** Numbers as theme.py writes them. */
function writeSeconds(seconds, digits = 3) {
  const small = seconds !== 0 && Math.abs(seconds.toPrecision(digits)) < 1;
  const text = (small ? seconds * 1e3 : seconds).toLocaleString("en-US", { maximumSignificantDigits: digits });
  return `${text} ${small ? "ms" : "s"}`;
}
