// What the ranks hold: a staircase below each row, or one bar a rank where rows are low.

/** The most that fits on the scale of memory, which all plots share. */
const mostHeld = (runs) => Math.max(1, ...runs.flatMap((run) => run.most_held));

function drawMemory(ctx, run, scale, paints, { steady, most, changes }) {
  for (let rank = 0; rank < run.actions.numRanks; rank += 1) {
    const floor = Math.round(scale.y(rank) + scale.box + scale.mem) + 0.5;
    const level = (held) => floor - Math.round((held / most) * (scale.mem - 3)); // on whole pixels, or lines blur
    const stairs = (run.held[rank] ??= heldOf(run.actions, rank, changes, run.unit));
    drawStairs(ctx, run, scale, paints, { stairs, floor, level, steady });
    writePeak(ctx, run, scale, paints, { stairs, floor, level, rank });
  }
}

/** The outline of a staircase; in steady state the same again for the steps before and after. */
function traceStairs(ctx, run, scale, { stairs, floor, level, steady }) {
  const period = run.steady.length_s;
  let y = floor;
  ctx.beginPath();
  ctx.moveTo(scale.left, floor);
  for (const by of steady ? [-period, 0, period] : [0]) {
    for (const [time, held] of stairs) {
      const x = Math.min(Math.max(scale.left, scale.x(time + by)), scale.left + scale.inner);
      ctx.lineTo(x, y);
      ctx.lineTo(x, (y = level(held)));
    }
  }
  ctx.lineTo(Math.min(steady ? Infinity : scale.x(run.step.length_s), scale.left + scale.inner), y);
}

function drawStairs(ctx, run, scale, paints, how) {
  traceStairs(ctx, run, scale, how);
  ctx.lineTo(scale.left + scale.inner, how.floor);
  ctx.fillStyle = paints.look.held;
  ctx.fill();
  traceStairs(ctx, run, scale, how); // above its area, which would cover half of it
  ctx.strokeStyle = paints.look.held_line;
  ctx.lineWidth = 1;
  ctx.stroke();
}

/** The most a rank holds, above its staircase where there is room, else on it. */
function writePeak(ctx, run, scale, paints, { stairs, floor, level, rank }) {
  const peak = run.most_held[rank];
  const at = stairs.find(([, held]) => held >= peak - 1e-6)?.[0] ?? 0;
  const px = Math.min(Math.round(scale.em * 0.86), scale.mem - 3);
  const x = scale.x(at) + 4;
  if (px < 7 || x < scale.left || x > scale.left + scale.inner) return;
  const isAbove = level(peak) - (floor - scale.mem + 2) >= px - 1;
  const y = isAbove ? level(peak) - px / 2 : Math.min(floor - px / 2 + 1, level(peak) + px / 2 + 1.5);
  ctx.font = paints.font(px, 650);
  ctx.textAlign = "left";
  Object.assign(ctx, { lineWidth: 2.5, lineJoin: "round", strokeStyle: isAbove ? paints.look.ground : paints.look.held });
  ctx.fillStyle = paints.look.ink;
  const text = (rank ? "" : "holds ") + writeCount(peak);
  ctx.strokeText(text, x, y + 0.5);
  ctx.fillText(text, x, y + 0.5);
}

/** One bar a rank, right of its row, all on one scale. */
function drawBars(ctx, run, scale, paints, { most }) {
  const font = Math.round(scale.em * 0.86);
  const [x, wide] = [scale.left + scale.inner + scale.em * 0.7, scale.em * 3.4];
  ctx.font = paints.font(font);
  ctx.textAlign = "left";
  ctx.fillStyle = paints.look.soft;
  ctx.fillText("holds at most", x - 2, scale.top - scale.em * 0.62);
  run.most_held.forEach((held, rank) => {
    ctx.fillStyle = paints.look.held_line;
    ctx.fillRect(x, scale.y(rank), (held / most) * wide, scale.box + (scale.gap ? 0 : 0.5));
  });
  ctx.font = paints.font(font, 650);
  const last = run.most_held.length - 1;
  run.most_held.forEach((held, rank) => {
    if (scale.pitch <= font && rank > 0 && rank < last) return;
    ctx.fillStyle = paints.look.ink;
    ctx.fillText(writeCount(held), x + (held / most) * wide + 4, Math.min(scale.height - 5, scale.y(rank) + scale.box / 2));
  });
}
