// Pictures made ahead: while nothing is asked for, Python makes the pictures of the settings next to the one on screen.
// One simulator makes every picture. A picture made ahead saves the way to the kernel and back, which takes longer than
// two frames in JupyterLab, whatever the size of the schedule.

const MOST_KEPT = 64;

/**
 * The pictures of settings to come. A setting is the JSON of the inputs; `make` turns an answer into a picture;
 * `inFlightAtMost` says how many answers an unforeseen input may have to wait for; `arrive` is called with a setting whose
 * picture has come, and `rest` when all have.
 */
function picturesAhead(model, make, inFlightAtMost, { arrive, rest }) {
  const kept = new Map();
  const inFlight = new Set();
  let wanted = [];
  const pump = () => {
    while (wanted.length && inFlight.size < inFlightAtMost()) {
      const setting = wanted.shift();
      if (kept.has(setting) || inFlight.has(setting)) continue;
      inFlight.add(setting);
      model.send({ ahead: setting });
    }
  };
  const keep = (setting, picture) => {
    kept.delete(setting);
    kept.set(setting, picture);
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  };
  const receive = ({ ahead, view }, blocks) => {
    if (!inFlight.delete(ahead)) return; // another page's, or from before a run
    if (view) {
      keep(ahead, make(view, blocks));
      arrive(ahead);
    }
    pump();
    if (!inFlight.size) rest();
  };
  model.on("msg:custom", receive);
  return {
    find: (setting) => kept.get(setting),
    keep,
    /** Ask for these settings instead of those still waiting. */
    want(settings) {
      wanted = settings;
      pump();
    },
    forget() {
      kept.clear();
      inFlight.clear();
      wanted = [];
    },
    stop: () => model.off("msg:custom", receive),
  };
}
