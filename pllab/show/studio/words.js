// The sentences of the studio: about an action, about idle time, about a moment, about what is selected.

const exact = (seconds, { makespan }) => (makespan < 1 ? `${Number((seconds * 1e3).toPrecision(5))} ms` : `${Number(seconds.toPrecision(5))} s`);
const brief = (seconds) => writeSeconds(Number(seconds.toPrecision(3))); // a difference of seven digits has fewer

/** An action: what it is, when it ran, and what it waited for. */
function sayAction(run, gaps, i, names) {
  const { actions, links } = run;
  const [rank, kind] = [actions.rank[i], KINDS[actions.kind[i]]];
  const stage = run.staged ? `, stage ${actions.stage[i]}` : "";
  const when = `${exact(actions.start[i], actions)} to ${exact(actions.end[i], actions)}`;
  const what = `${labelOf(actions, i, true)}, rank ${rank}${run.engine === "simulated" ? "" : `, ${run.engine}`}: ${names[kind]} of micro-batch ${actions.microbatch[i]}${stage}, ${when}. `;
  const gap = gaps.find((one) => one.i === i && one.rank === rank);
  const inputs = links.before(i);
  if (!inputs.length) return what + (gap ? `The rank was idle ${brief(gap.to - gap.from)} before; nothing was missing.` : "It needs nothing: it is the first stage.");
  const last = inputs.reduce((one, other) => (actions.end[other] > actions.end[one] ? other : one));
  const whose = `${labelOf(actions, last, true)}${actions.rank[last] === rank ? "" : ` of rank ${actions.rank[last]}`}`;
  if (gap) return `${what}The rank was idle ${brief(gap.to - gap.from)}, ${sayCause(run, gap)}.`;
  const early = actions.start[i] - actions.end[last];
  return what + (early > actions.makespan * 1e-6 ? `It needs ${whose}, done since ${exact(actions.end[last], actions)}; the rank was busy.` : `It needs ${whose} and starts as that ends.`);
}

/** What a gap waits for, as pllab.simulate.gaps finds it. */
function sayCause({ actions, links }, { i, rank, to }) {
  const name = (one) => labelOf(actions, one, true);
  const sender = links.sender(i);
  if (sender === undefined) return `though its next action ${name(i)} had all it needs`;
  const travels = to - actions.end[sender];
  const message = travels > actions.makespan * 1e-6 ? `, whose message travels ${brief(travels)}` : "";
  return `waiting for ${name(sender)} of rank ${actions.rank[sender]}${message}`;
}

function sayGap(run, gap, steady) {
  const idle = `Rank ${gap.rank} idle ${exact(gap.from, run.actions)} to ${exact(gap.to, run.actions)}, ${brief(gap.to - gap.from)}`;
  if (gap.i === run.actions.first[gap.rank + 1]) {
    return `${idle}: ${steady ? "the slowest rank takes this much longer for a step" : "nothing left to do, and the step ends at a barrier"}.`;
  }
  return `${idle}, ${sayCause(run, gap)}; then ${labelOf(run.actions, gap.i, true)}.`;
}

function sayMoment(run, time) {
  const { actions } = run;
  const on = Array.from({ length: actions.numRanks }, (_, rank) => {
    const i = lastStarted(actions, rank, time);
    return i >= actions.first[rank] && time < actions.end[i] ? labelOf(actions, i, run.staged) : null;
  });
  const each = on.length <= 8 ? `: ${on.map((name, rank) => `rank ${rank} ${name ?? "idle"}`).join(", ")}` : "";
  return `t = ${exact(time, actions)}, ${on.filter(Boolean).length} of ${on.length} ranks busy${each}`;
}

/** Where the idle time of a measured run went, all of it, the largest part first. */
function sayCauses({ engine, causes, note }) {
  const parts = causes.filter(({ share }) => share >= 5e-4).sort((one, other) => other.share - one.share);
  const idle = causes.reduce((all, { seconds }) => all + seconds, 0);
  const each = parts.map(({ share, words }) => `${writePercent(share)} ${words}`).join("; ");
  return `Idle ${brief(idle)} on all ranks, ${engine}: ${each || "never"}.${note ? ` Clock: ${note}.` : ""}`;
}

/** A setting, when nothing is pointed at: in steady state why it is what it is, else what the family shows. */
function saySetting(runs, story, steady) {
  const run = runs[0];
  const measured = runs.find(({ is_measured: isMeasured }) => isMeasured);
  if (measured && !steady) return sayCauses(measured);
  const without = runs.find((one) => one.steady.bubble_fraction < 5e-4);
  if (steady && without) {
    return `${without.name}, no barrier: a rank starts its next step when its own work is done, and within a step none of them waits.`;
  }
  if (steady) return "No barrier: a rank starts its next step when its own work is done. What is left is idle time within a rank's own step.";
  return story ? `${run.name}. ${story}` : `${run.title}, ${run.engine}.`;
}
