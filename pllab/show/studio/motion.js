// Moving from one schedule to the next: halves of work travel, so that a backward splits into I and W and a stage into
// two, and boxes do not blink. Off for reduced motion, other sizes and many ranks.

const MOTION_MS = 900;
const MOST_MOVED = 3000;

const ease = (t) => (t < 0.5 ? 4 * t * t * t : 1 - (2 - 2 * t) ** 3 / 2);
const between = (from, to, t) => from + (to - from) * t;

/** The smallest parts of work that two schedules have in common, by rank, micro-batch, kind and half of the layers. */
function quantaOf({ actions, staged }) {
  const quanta = new Map();
  for (let i = 0; i < actions.count; i += 1) {
    if (actions.kind[i] > W) continue;
    const kinds = actions.kind[i] === B ? [I, W] : [actions.kind[i]];
    const halves = staged ? [isLater(actions, i) ? 1 : 0] : [0, 1];
    const parts = kinds.flatMap((kind) => halves.map((half) => [kind, half]));
    const width = (actions.end[i] - actions.start[i]) / parts.length;
    parts.forEach(([kind, half], at) => {
      const start = actions.start[i] + at * width;
      const key = [actions.rank[i], actions.microbatch[i], kind, half].join();
      quanta.set(key, { i, start, end: start + width, isFirst: at === 0, isLast: at === parts.length - 1 });
    });
  }
  return quanta;
}

/** Whether two runs are the same to the eye. */
const isSame = (from, to) => from.name === to.name && from.engine === to.engine && from.actions.count === to.actions.count && from.step.length_s === to.step.length_s;

/** Whether one run can turn into another before our eyes. */
function canMove(from, to) {
  const isOneSize = ["numRanks", "numMicrobatches"].every((size) => from.actions[size] === to.actions[size]);
  return isOneSize && Math.max(from.actions.count, to.actions.count) <= MOST_MOVED && to.actions.numRanks <= 16;
}

/** One frame of the way from a run to the next, at a share t of the time. */
function drawMotion(ctx, { from, to, quanta }, scale, paints, t) {
  const [before, after] = quanta;
  const count = to.actions.numMicrobatches;
  const names = []; // above all boxes
  for (const [key, goal] of after) {
    const origin = before.get(key) ?? goal;
    const late = (to.actions.microbatch[goal.i] / count) * 0.35; // one micro-batch after the other
    const own = Math.max(0, Math.min(1, (t - late) / 0.65));
    const [run, part] = own < 0.5 ? [from, origin] : [to, goal];
    const [left, right] = ["start", "end"].map((side) => scale.x(between(origin[side], goal[side], ease(own))));
    drawQuantum(ctx, run, part, scale, paints, left, right);
    if (part.isFirst) names.push([run, part.i, left, Math.max(0, 1 - 4 * own, 4 * own - 3)]);
  }
  for (const [run, i, left, alpha] of names) fadeLabel(ctx, run, i, scale, paints, left, alpha);
}

function drawQuantum(ctx, { actions }, { i, isFirst, isLast }, scale, paints, left, right) {
  const [y, high, kind] = [scale.y(actions.rank[i]), scale.box, actions.kind[i]];
  ctx.fillStyle = paints.fill(kind, isLater(actions, i));
  ctx.fillRect(left, y, right - left + 0.6, high);
  ctx.fillStyle = paints.outline(kind);
  ctx.fillRect(left, y, right - left, kind === F ? 3 : 1);
  const foot = kind === B || kind === I ? 3 : 1;
  ctx.fillRect(left, y + high - foot, right - left, foot);
  if (isFirst) ctx.fillRect(left, y, 1, high);
  if (isLast) ctx.fillRect(right - 1, y, 1, high);
}

function fadeLabel(ctx, run, i, scale, paints, left, alpha) {
  const width = (run.actions.end[i] - run.actions.start[i]) * scale.perSecond;
  const how = alpha && labelWay(ctx, run, scale, paints, Math.round(width));
  if (!how) return;
  ctx.globalAlpha = alpha;
  ctx.fillStyle = paints.look.ink;
  ctx.textAlign = "center";
  writeLabel(ctx, run, i, how, paints, left + width / 2, scale.y(run.actions.rank[i]) + scale.box / 2 + 0.5);
  ctx.globalAlpha = 1;
}
