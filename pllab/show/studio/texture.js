// Large sizes: where a forward is a few pixels wide, boxes would turn into moire. Waits that can be seen stay sharp, and
// work becomes lanes, F above W above B, as thick as their share of the time around.

const LANES = [F, W, I]; // from top to bottom; a whole backward lies in the lane of I
const PARTS = 7; // of a pixel: three lanes of two stages each, and short waits
const SHORT_WAIT_PX = 9;

/** The texture of a run, woven once per setting: a canvas with the rows one below the other. */
function weave(run, scale, paints, { steady }) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(scale.inner * ratio), Math.max(1, Math.round(scale.box * ratio))];
  const canvas = Object.assign(document.createElement("canvas"), { width: wide, height: high * run.actions.numRanks });
  const ctx = canvas.getContext("2d");
  const inks = inksOf(paints);
  const end = steady ? wide : Math.round(((run.step.length_s - scale.from) / (scale.to - scale.from)) * wide);
  const reach = Math.max(1, Math.round(4 * scale.unit * ratio));
  for (let rank = 0; rank < run.actions.numRanks; rank += 1) {
    const row = coverRow(run, scale, rank, wide, steady);
    const share = smooth(smooth(row.sum, row.idle, reach), row.idle, reach);
    ctx.putImageData(paintRow(ctx.createImageData(wide, high), row.idle, share, inks, end), 0, rank * high);
  }
  return { canvas, wide, high };
}

function drawTexture(ctx, run, scale, { canvas, wide, high }) {
  ctx.imageSmoothingEnabled = false;
  for (let rank = 0; rank < run.actions.numRanks; rank += 1) {
    ctx.drawImage(canvas, 0, rank * high, wide, high, scale.left, scale.y(rank), scale.inner, scale.box);
  }
}

/** Red, green and blue of each part, one after the other; idle time is the last part. */
function inksOf(paints) {
  const lanes = LANES.flatMap((kind) => [false, true].map((later) => mix(paints.outline(kind), paints.fill(kind, later), 0.1)));
  return [...lanes, paints.look.idle].flatMap((colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
}

/** Per pixel of a row: whether it is a wait that can be seen, and the time each part has in it. */
function coverRow(run, scale, rank, wide, steady) {
  const { first, start, end, kind } = run.actions;
  const perSecond = wide / (scale.to - scale.from);
  const sum = new Float32Array(wide * PARTS);
  const idle = new Uint8Array(wide).fill(1);
  const period = run.steady.length_s;
  let reached = -Infinity; // the first wait of a rank is never short
  for (const by of steady ? [-period, 0, period] : [0]) {
    for (let i = first[rank]; i < first[rank + 1]; i += 1) {
      if (kind[i] > W) continue;
      const [from, to] = [(start[i] + by - scale.from) * perSecond, (end[i] + by - scale.from) * perSecond];
      const joined = from - reached < SHORT_WAIT_PX ? reached : from;
      const part = 2 * LANES.indexOf(kind[i] === B ? I : kind[i]) + (isLater(run.actions, i) ? 1 : 0);
      cover(sum, idle, part, joined, from, to);
      reached = to;
    }
  }
  return { sum, idle };
}

/** Count a box and the short wait before it into the pixels they touch. */
function cover(sum, idle, part, joined, from, to) {
  const last = Math.min(idle.length, Math.ceil(to));
  for (let x = Math.max(0, Math.floor(joined)); x < last; x += 1) {
    sum[x * PARTS + part] += Math.max(0, Math.min(x + 1, to) - Math.max(x, from));
    sum[x * PARTS + 6] += Math.max(0, Math.min(x + 1, from) - Math.max(x, joined));
    if (x + 0.5 >= joined && x + 0.5 < to) idle[x] = 0;
  }
}

/** Shares over `reach` pixels to both sides, long waits left out. */
function smooth(sum, idle, reach) {
  const wide = idle.length;
  const out = new Float32Array(sum.length);
  const within = new Float64Array(PARTS);
  let all = 0;
  const push = (x, sign) => {
    if (x < 0 || x >= wide || idle[x]) return;
    for (let part = 0; part < PARTS; part += 1) {
      within[part] += sign * sum[x * PARTS + part];
      all += sign * sum[x * PARTS + part];
    }
  };
  for (let x = 0; x < reach; x += 1) push(x, 1);
  for (let x = 0; x < wide; x += 1) {
    push(x + reach, 1);
    push(x - reach - 1, -1);
    for (let part = 0; all > 1e-9 && part < PARTS; part += 1) out[x * PARTS + part] = Math.max(0, within[part] / all);
  }
  return out;
}

function paintRow(image, idle, share, inks, end) {
  const pixels = new Uint32Array(image.data.buffer);
  const { width, height } = image;
  const idleInk = packInk(inks[18], inks[19], inks[20]);
  const lanes = { until: new Int32Array(4), inks: new Uint32Array(4) }; // filled anew for each pixel
  for (let x = 0; x < Math.min(end, width); x += 1) {
    if (!idle[x]) mixLanes(inks, share, x * PARTS, height, lanes);
    for (let y = 0, lane = 0; y < height; y += 1) {
      while (lane < 3 && y >= lanes.until[lane]) lane += 1;
      pixels[y * width + x] = idle[x] ? idleInk : lanes.inks[lane];
    }
  }
  return image;
}

/** Four inks at one pixel, F, W, B and short waits, drawn towards their mean: the hue is there, the stripes do not shout. */
function mixLanes(inks, share, at, height, lanes) {
  let [red, green, blue, work, until] = [0, 0, 0, 0, 0];
  for (let part = 0; part < 6; part += 1) {
    const own = share[at + part];
    work += own;
    red += own * inks[3 * part];
    green += own * inks[3 * part + 1];
    blue += own * inks[3 * part + 2];
  }
  work = work || 1;
  for (let lane = 0; lane < 4; lane += 1) {
    const first = 6 * lane; // its two stages lie one after the other, and short waits have no second
    const [one, other] = [share[at + 2 * lane], lane < 3 ? share[at + 2 * lane + 1] : 0];
    const [all, own] = [one + other || 1, lane < 3 ? 0.4 : 0.65];
    const drawn = (channel, mean) => own * ((one * inks[first + channel] + other * (inks[first + 3 + channel] ?? 0)) / all) + ((1 - own) * mean) / work;
    until += (one + other) * height;
    lanes.until[lane] = Math.round(until);
    lanes.inks[lane] = packInk(drawn(0, red), drawn(1, green), drawn(2, blue));
  }
}

const packInk = (red, green, blue) => ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
