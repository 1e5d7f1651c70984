// The actions of a run as the browser has them, and what follows from their order: dependencies, idle time, memory and the
// way of a micro-batch. No colour and no pixel here. Python puts this text in front of the studio's module.

const KINDS = "FBIWCUR";
const [F, B, I, W, C] = [0, 1, 2, 3, 4];

/** The columns of runs.py as typed arrays, by rank, then by start. */
function readActions({ buffer, byteOffset, byteLength }) {
  const all = new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength)); // a copy is aligned
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
  const numMicrobatches = microbatch.reduce((most, one) => Math.max(most, one + 1), 0);
  return { count, rank, stage, kind, microbatch, start, end, first, lowest, numRanks, numStages, numMicrobatches, makespan };
}

/** "F3", or "2F3" where a rank has several stages. */
function labelOf(actions, i, staged) {
  return `${staged ? actions.stage[i] : ""}${KINDS[actions.kind[i]]}${actions.microbatch[i]}`;
}

/** The dependencies between actions, by index, as pllab.schedule.needs states them; `sender` is the input from another rank. */
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
  const before = (i) => {
    const [stage, microbatch, kind] = [actions.stage[i], actions.microbatch[i], actions.kind[i]];
    const needed = [find(stage, microbatch, F), find(stage + 1, microbatch, I, B)];
    const needs = [[find(stage - 1, microbatch, F)], needed, needed, [find(stage, microbatch, I)]][kind] ?? [];
    return needs.filter((one) => one !== undefined);
  };
  // an input that began later did not hold it up: the clocks of two measured ranks differ a little
  const sender = (i) => before(i).find((one) => actions.rank[one] !== actions.rank[i] && actions.start[one] <= actions.start[i]);
  return { find, before, sender };
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

/** Whether an action is of another stage than the first of its rank. */
const isLater = (actions, i) => actions.stage[i] !== actions.lowest[actions.rank[i]];

/** The first start of a rank's work. */
const startOf = ({ first, start, numRanks }, rank) => (rank < numRanks && first[rank] < first[rank + 1] ? start[first[rank]] : 0);

/** The time a rank's idle time is counted in: [from, to]; steps without a barrier have a window of their own each. */
function windowOfRank(run, rank, steady) {
  if (!steady) return [0, run.step.length_s];
  const from = startOf(run.actions, rank);
  return [from, from + run.steady.length_s];
}

/** The idle time of a run, by rank and time: { rank, from, to, i }, i the action behind it or the place after the last.
 * As Timeline.idle_times finds it, and without the kernel, in the window of either measure. */
function gapsOf(run, steady) {
  const { first, start, end, kind, numRanks } = run.actions;
  const gaps = [];
  const least = run.step.length_s * 1e-6;
  for (let rank = 0; rank < numRanks; rank += 1) {
    let [reached, to] = windowOfRank(run, rank, steady);
    for (let i = first[rank]; i < first[rank + 1]; i += 1) {
      if (kind[i] === C) continue; // a message leaves the rank free
      if (start[i] - reached > least) gaps.push({ rank, from: reached, to: start[i], i });
      reached = Math.max(reached, end[i]);
    }
    if (to - reached > least) gaps.push({ rank, from: reached, to, i: first[rank + 1] });
  }
  return gaps;
}

/** The way of a micro-batch: its forwards from stage to stage, then its backwards, as indices of actions. */
function wayOf(actions, links, microbatch) {
  const stages = Array.from({ length: actions.numStages }, (_, stage) => stage);
  const way = [...stages.map((stage) => links.find(stage, microbatch, F)), ...stages.reverse().map((stage) => links.find(stage, microbatch, I, B))];
  return way.filter((i) => i !== undefined);
}

/** The memory of a rank over time: [seconds, micro-batches held from then on]. Python says how much each kind adds;
 * the sum is made here, because sending the staircase too would double the message. */
function heldOf({ first, kind, start, end }, rank, changes, unit) {
  const moves = [];
  for (let i = first[rank]; i < first[rank + 1]; i += 1) {
    const step = changes[kind[i]] * unit;
    if (step) moves.push([step > 0 ? start[i] : end[i], step]);
  }
  moves.sort((one, other) => one[0] - other[0]);
  const held = [];
  let now = 0;
  for (const [time, step] of moves) {
    now += step;
    if (held.length && held.at(-1)[0] === time) held.at(-1)[1] = now; // changes at one moment are one step
    else held.push([time, now]);
  }
  return held;
}

/** The action at a moment of a rank, as { i }, or the gap, or null. */
function spotAt(run, gaps, rank, time) {
  const { first, end, kind } = run.actions;
  if (rank < 0 || rank >= run.actions.numRanks) return null;
  let i = lastStarted(run.actions, rank, time);
  while (i >= first[rank] && (kind[i] === C || time > end[i]) && i > first[rank] && end[i - 1] >= time) i -= 1;
  if (i >= first[rank] && time <= end[i]) return { i };
  return gaps.find((gap) => gap.rank === rank && gap.from <= time && time < gap.to) ?? null;
}

const plain = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });

/** To significant digits as Python rounds: of two that are as near, the one with an even last digit. */
function nearest(value, digits) {
  const tie = value.toExponential(60).match(`^(-?\\d\\.?\\d{${digits - 1}})50*(e.*)$`);
  return tie && Number(tie[1].at(-1)) % 2 === 0 ? Number(tie[1] + tie[2]) : Number(value.toPrecision(digits));
}

/** Numbers as theme.py writes them; digits are 3, 5 or 6. */
function writeCount(number, digits = 3) {
  const rounded = nearest(number, digits);
  return rounded && Math.abs(rounded) < 1e-4 ? rounded.toExponential().replace(/-(\d)$/, "-0$1") : plain.format(rounded);
}
function writeSeconds(seconds, digits = 3) {
  const isSmall = seconds !== 0 && Math.abs(nearest(seconds, digits)) < 1;
  return `${writeCount(isSmall ? seconds * 1e3 : seconds, digits)} ${isSmall ? "ms" : "s"}`;
}
function writePercent(share) {
  const tenths = share * 1000;
  const rounded = Math.abs(tenths % 1) === 0.5 ? 2 * Math.round(tenths / 2) : Math.round(tenths);
  return `${rounded ? (rounded / 10).toFixed(1) : 0} %`;
}
