// Where everything of a plot lies: rows, boxes and memory in CSS pixels, and which times are in view.

const LEAST_BOX_PX = 4.6; // of an ordinary forward: below, boxes have no outlines and their edges blend
const THIN_BOX_PX = 9;
const LEAST_MEMORY_PX = 40; // of a staircase, as long as the work above it can be read

/** Seconds of an ordinary forward: half of them are shorter. */
function forwardOf({ actions }) {
  const lengths = [];
  for (let i = 0; i < actions.count; i += 1) if (actions.kind[i] === F) lengths.push(actions.end[i] - actions.start[i]);
  return lengths.sort((one, other) => one - other)[lengths.length >> 1] ?? 0;
}

/**
 * The layout of a plot of width x height for a run: pitch is from row to row, box the height of work, mem that of the
 * memory below it. Where rows are low, memory is one bar a rank on the right instead.
 */
function scaleOf(width, height, em, ranks, view, forward, isFlat) {
  const top = Math.round(em * 1.35);
  const room = Math.min((height - top) / ranks, em * 9);
  const bars = room < em * 1.9 || isFlat;
  const pitch = bars && room > 3 ? Math.floor(Math.min(room, em * 3)) : room;
  const gap = bars ? (pitch > 14 ? 2 : 0) : Math.round(Math.max(3, pitch * 0.08));
  const mem = bars ? 0 : Math.round(Math.max(pitch * 0.38, pitch - gap - em * 3.6, Math.min(LEAST_MEMORY_PX, pitch - gap - em * 1.6)));
  const left = Math.round(em * (bars ? 2.6 : 3.9));
  const inner = Math.max(40, Math.floor(width - left - (bars ? em * 7.4 : 1)));
  const [from, to] = view;
  const perSecond = inner / (to - from);
  return {
    width, height, top, pitch, gap, mem, bars, left, inner, from, to, em,
    box: pitch - mem - gap,
    unit: forward * perSecond,
    x: (time) => left + (time - from) * perSecond,
    y: (rank) => top + rank * pitch,
    time: (x) => from + (x - left) / perSecond,
    rank: (y) => Math.floor((y - top) / pitch),
  };
}

/** All times of the runs on screen; in steady state the steps before and after begin to show. */
function wholeOf(runs, steady) {
  const longest = Math.max(...runs.map((run) => run.step.length_s)) || 1;
  return steady ? [-0.07 * longest, 1.06 * longest] : [0, longest];
}

/** A size of a round number of seconds, so that at most `most` of them fill a span. */
function roundStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return power * ([1, 2, 5, 10].find((factor) => power * factor * most >= span * 0.9999) ?? 10);
}

/** A context in CSS pixels on a canvas as fine as the screen; on whole pixels, or every outline blurs. */
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  return ctx;
}

/** Round times below the plots. */
function drawAxis(canvas, scale, paints) {
  const ctx = fitCanvas(canvas, scale.width, Math.round(scale.em * 1.5));
  const font = scale.em * 0.86;
  ctx.font = paints.font(font);
  ctx.fillStyle = paints.look.soft;
  const size = roundStep(scale.to - scale.from, Math.max(2, Math.floor(scale.inner / (font * 7.5))));
  for (let n = Math.ceil(scale.from / size - 1e-6); n * size <= scale.to + size * 1e-6; n += 1) {
    const x = Math.round(scale.x(n * size));
    ctx.fillRect(x, 0, 1, 4);
    ctx.textAlign = x + font * 2 > scale.left + scale.inner ? "right" : "center";
    ctx.fillText(n === 0 ? "0" : writeSeconds(n * size, 6), Math.min(x, scale.left + scale.inner), 5 + font * 0.6);
  }
}
