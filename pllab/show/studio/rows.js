// Work and idle time on a canvas: one slab of idle ink per rank, and work lies on it in tints. No state is kept here:
// a run, a scale and paints go in, pixels come out.

/** Everything that is mixed once per theme: tints, outlines, the stripes of idle time, type. */
function paintsOf(theme, root) {
  const look = lookOf(theme, root);
  const family = getComputedStyle(root).fontFamily;
  const kept = new Map();
  const once = (key, make) => kept.get(key) ?? (kept.set(key, make()), kept.get(key));
  const litOf = (kind, later) => mix(look.hues[KINDS[kind]] ?? look.over, look.ground, later ? look.lit_pale : look.lit);
  return {
    look,
    font: (px, weight = 400) => `${weight} ${px}px ${family}`,
    outline: (kind) => look.outlines[KINDS[kind]] ?? look.over,
    fill: (kind, later) => once(`${kind} ${later}`, () => tintOf(look, KINDS[kind], later)),
    lit: (kind, later) => once(`lit ${kind} ${later}`, () => litOf(kind, later)),
    blend: (colour, share, ground = look.ground) => once(`${colour}${ground}${share}`, () => mix(colour, ground, share)),
    idle: stripesOf(look.idle, look.idle_stripe),
  };
}

/** Stripes on idle ink, as boxes.js has them in SVG. */
function stripesOf(ink, stripe) {
  const tile = Object.assign(document.createElement("canvas"), { width: 10, height: 10 });
  const ctx = tile.getContext("2d");
  ctx.fillStyle = ink;
  ctx.fillRect(0, 0, 10, 10);
  ctx.strokeStyle = stripe;
  ctx.lineWidth = 1.4;
  ctx.stroke(new Path2D("M-2 2L2 -2M0 10L10 0M8 12L12 8"));
  return ctx.createPattern(tile, "repeat");
}

function clipTo(ctx, ...box) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(...box);
  ctx.clip();
}

/** The names of the rows, as many as there is room for. */
function drawRows(ctx, scale, ranks, paints) {
  const font = Math.round(scale.em * 0.86);
  const every = [1, 2, 4, 8, 16].find((step) => step * scale.pitch >= font * 1.15) ?? 16;
  ctx.font = paints.font(font);
  ctx.fillStyle = paints.look.soft;
  ctx.textAlign = "left";
  if (scale.bars) ctx.fillText("rank", 5, scale.top - scale.em * 0.62);
  for (let rank = 0; rank < ranks; rank += every) {
    ctx.fillText(scale.bars ? rank : `rank ${rank}`, 5, scale.y(rank) + scale.box / 2 + 0.5);
  }
}

function drawSlab(ctx, run, scale, paints, steady) {
  const from = steady ? scale.left : Math.max(scale.left, scale.x(0));
  const end = steady ? scale.left + scale.inner : Math.min(scale.x(run.step.length_s), scale.left + scale.inner);
  ctx.fillStyle = paints.idle;
  for (let rank = 0; rank < run.actions.numRanks; rank += 1) ctx.fillRect(from, Math.round(scale.y(rank)), end - from, Math.round(scale.box));
}

/** Whether boxes are so narrow that outlines would hide them; their edges then lie between pixels, or they turn into moire. */
const isFine = (scale) => scale.unit < LEAST_BOX_PX;

/** What is in view of a step that is moved by some seconds: calls draw(i, x, width) for each box. */
function eachBox(run, scale, by, draw) {
  const { actions } = run;
  const [left, right] = [scale.left, scale.left + scale.inner];
  const fit = isFine(scale) ? (x) => x : Math.round;
  for (let i = 0; i < actions.count; i += 1) {
    const x = fit(scale.x(actions.start[i] + by));
    const end = fit(scale.x(actions.end[i] + by));
    if (end > left && x < right) draw(i, x, isFine(scale) ? end - x + 0.5 : Math.max(1, end - x));
  }
}

/** All work of a run; in steady state the steps before and after are grey, and a stair shows where steps meet. */
function drawBoxes(ctx, run, scale, paints, steady) {
  const { kind } = run.actions;
  if (steady) {
    const period = run.steady.length_s;
    for (const by of [-period, period]) eachBox(run, scale, by, (i, x, width) => drawOther(ctx, scale, paints, run.actions.rank[i], x, width));
  }
  eachBox(run, scale, 0, (i, x, width) => drawBox(ctx, run, scale, paints, i, x, width, paints.fill(kind[i], isLater(run.actions, i))));
  drawLabels(ctx, run, scale, paints);
  if (steady) drawSeams(ctx, run, scale, paints);
}

function drawBox(ctx, run, scale, paints, i, x, width, fill) {
  const kind = run.actions.kind[i];
  let [y, high] = [Math.round(scale.y(run.actions.rank[i])), Math.round(scale.box)];
  if (kind === C) [y, high] = [y + Math.round(high * 0.8), Math.round(high * 0.2)]; // a message leaves the rank free
  const isThin = scale.unit < THIN_BOX_PX || width < 4;
  const outline = paints.outline(kind);
  ctx.fillStyle = fill;
  ctx.fillRect(x, y, width, high);
  if (isFine(scale)) return;
  ctx.fillStyle = isThin ? paints.blend(outline, 0.45, fill) : outline;
  ctx.fillRect(x, y, 1, high);
  ctx.fillStyle = outline;
  if (!isThin) ctx.fillRect(x + width - 1, y, 1, high);
  const bar = kind !== W && kind !== C && high > 12 ? 3 : 1;
  ctx.fillRect(x, y, width, kind === F ? bar : 1);
  ctx.fillRect(x, y + high - (kind === F ? 1 : bar), width, kind === F ? 1 : bar);
}

function drawOther(ctx, scale, paints, rank, x, width) {
  const [y, high] = [Math.round(scale.y(rank)), Math.round(scale.box)];
  ctx.fillStyle = paints.blend(paints.look.held_line, isFine(scale) ? 0.3 : 0.85);
  ctx.fillRect(x, y, width, high);
  if (isFine(scale)) return;
  ctx.fillStyle = paints.blend(paints.look.held, 0.45);
  ctx.fillRect(x + 1, y + 1, width - 1, high - 2);
}

function drawSeams(ctx, run, scale, paints) {
  ctx.strokeStyle = paints.look.ink;
  ctx.lineWidth = 2.5;
  for (const by of [0, run.steady.length_s]) {
    ctx.beginPath();
    for (let rank = 0; rank < run.actions.numRanks; rank += 1) {
      const x = Math.round(scale.x(startOf(run.actions, rank) + by));
      ctx.lineTo(x, scale.y(rank) - (rank ? 0 : 4));
      ctx.lineTo(x, scale.y(rank) + scale.pitch - (rank === run.actions.numRanks - 1 ? scale.gap : 0));
    }
    ctx.stroke();
  }
}

/** "2F3", or "F3" where a rank has one stage. */
const nameOf = (run, i) => labelOf(run.actions, i, run.staged);

/** How boxes of one width are labelled: 2F3, F3, F over 3, or not at all; one way for all, or rows look ragged. */
function labelWay(ctx, run, scale, paints, width) {
  const last = run.actions.numMicrobatches - 1;
  const big = Math.min(scale.em * 0.92, scale.box * 0.62);
  const wide = (px, text) => {
    ctx.font = paints.font(px, 500);
    return ctx.measureText(text).width;
  };
  if (scale.box < 9 || width < 6 || big < 7) return null;
  if (run.staged && wide(big, `${run.actions.numStages - 1}W${last}`) + 6 < width) return { px: big, way: "full" };
  for (const share of [1, 0.93, 0.86, 0.79, 0.72, 0.66]) {
    if (share * big >= 8 && wide(share * big, `W${last}`) + 2 <= width) return { px: share * big, way: "pair" };
  }
  const low = Math.min(big * 0.9, (scale.box - 5) / 2.1);
  return low > 8.5 && wide(low, Math.max(last, 10)) <= width + 2 ? { px: low, way: "stack" } : null;
}

/** Labels of all boxes, or of those in `only`. */
function drawLabels(ctx, run, scale, paints, only = null) {
  const { actions } = run;
  const ways = new Map();
  ctx.textAlign = "center";
  ctx.fillStyle = paints.look.ink;
  eachBox(run, scale, 0, (i, x, width) => {
    if (actions.kind[i] === C || (only && !only.has(i))) return;
    if (!ways.has(width)) ways.set(width, labelWay(ctx, run, scale, paints, width));
    const how = ways.get(width);
    if (how) writeLabel(ctx, run, i, how, paints, x + width / 2, Math.round(scale.y(actions.rank[i])) + scale.box / 2 + 0.5);
  });
}

function writeLabel(ctx, run, i, { px, way }, paints, x, y) {
  const { kind, microbatch } = run.actions;
  ctx.font = paints.font(px, 500);
  if (way === "stack") {
    ctx.fillText(KINDS[kind[i]], x, y - px * 0.48);
    ctx.fillText(microbatch[i], x, y + px * 0.52);
  } else ctx.fillText(labelOf(run.actions, i, way === "full"), x, y);
}

/** The length of idle time, where it fits, on the idle ink itself. */
function drawWaits(ctx, run, scale, paints, gaps) {
  const font = Math.round(scale.em * 0.86);
  if (scale.box < font) return;
  ctx.font = paints.font(font);
  ctx.textAlign = "center";
  ctx.fillStyle = paints.look.on_idle;
  for (const { rank, from, to } of gaps) {
    const [left, right] = [Math.max(scale.x(from), scale.left), Math.min(scale.x(to), scale.left + scale.inner)];
    const long = writeSeconds(to - from);
    const text = [`idle ${long}`, long].find((words) => ctx.measureText(words).width + 10 < right - left);
    if (text) ctx.fillText(text, (left + right) / 2, scale.y(rank) + scale.box / 2 + 0.5);
  }
}

/** Above the first rank: warm-up, steady, drain, each with its part of the bubble in idle ink. */
function drawPhases(ctx, run, scale, paints, steady) {
  const measure = steady ? run.steady : run.step;
  const from = steady ? startOf(run.actions, 0) : 0;
  const marks = [from, ...measure.marks, from + measure.length_s];
  const font = Math.round(scale.em * 0.86);
  ["warm-up", "steady", "drain"].forEach((name, at) => drawPhase(ctx, scale, paints, font, marks[at], marks[at + 1], name, measure.phases[at]));
  if (!steady) return;
  drawPhase(ctx, scale, paints, font, from - measure.length_s, from, "step before", 0);
  drawPhase(ctx, scale, paints, font, marks[3], marks[3] + measure.length_s, "next step", 0);
}

function drawPhase(ctx, scale, paints, font, from, to, name, share) {
  const left = Math.max(scale.x(from), scale.left) + 1.5;
  const right = Math.min(scale.x(to), scale.left + scale.inner) - 1.5;
  const y = Math.round(scale.top - scale.em * 0.62) + 0.5;
  if (right - left < 11) return;
  ctx.font = paints.font(font);
  const part = share > 5e-4 ? writePercent(share) : "";
  const wide = (text) => (text ? ctx.measureText(text).width + 10 : 0);
  const words = [[name, part], ["", part], [name, ""]].find(([one, other]) => wide(one) + wide(other) + 8 < right - left) ?? ["", ""];
  const inside = wide(words[0]) + wide(words[1]);
  const start = inside ? (left + right - inside) / 2 : right;
  ctx.strokeStyle = ctx.fillStyle = paints.look.soft;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(left, y + 5);
  ctx.lineTo(left, y);
  ctx.lineTo(start, y);
  ctx.moveTo(start + inside, y);
  ctx.lineTo(right, y);
  ctx.lineTo(right, y + 5);
  ctx.stroke();
  ctx.textAlign = "left";
  if (words[0]) ctx.fillText(words[0], start + 5, y + 0.5);
  if (words[1]) writeOnIdle(ctx, paints, words[1], start + wide(words[0]), y, font);
}

/** A word on a plate of idle ink. */
function writeOnIdle(ctx, paints, text, x, y, font) {
  ctx.fillStyle = paints.look.idle;
  ctx.beginPath();
  ctx.roundRect(x + 1, y - font * 0.64, ctx.measureText(text).width + 8, font * 1.28, 2);
  ctx.fill();
  ctx.fillStyle = paints.look.on_idle;
  ctx.fillText(text, x + 5, y + 0.5);
}
