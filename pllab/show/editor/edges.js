// The lines of an illegal order: a dashed arrow from an action that must run first to one that is too early, and, for a
// circle of waiting, a dotted bracket from the action in front to the one it holds up.

/** Draw the edges and the circle of a view over the board of an editor. */
function drawEdges(editor, view) {
  const { geometry, grid } = editor;
  const marker = `${editor.prefix}-arrow`;
  const head = shape("path", { d: "M0 0L8 4L0 8Z", class: "pl-head-of-edge" });
  const tip = shape("marker", { id: marker, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" }, head);
  const ends = (id) => {
    const { rank, place } = editor.spot(id);
    const { start, end } = view.rows[rank].blocks[place];
    const top = grid.children[rank].lastChild.offsetTop;
    return { rank, x: geometry.left + ((start + end) / 2) * geometry.scale, top, bottom: top + geometry.block };
  };
  const draw = (pairs, of, curve, more = {}) =>
    pairs.filter((pair) => pair.every((id) => editor.spot(id))).flatMap(([from, to]) => {
      const d = curve(ends(from), ends(to), geometry);
      return [shape("path", { class: "pl-halo", d }), shape("path", { class: `pl-${of}`, [`data-${of}`]: `${from}-${to}`, d, ...more })];
    });
  editor.edges.replaceChildren(tip, ...draw(view.circle, "bracket", bracketOf), ...draw(view.edges, "edge", curveOf, { "marker-end": `url(#${marker})` }));
}

function curveOf(a, b, { pad }) {
  if (a.rank === b.rank) return `M${a.x} ${a.top}C${a.x} ${a.top - pad} ${b.x} ${b.top - pad} ${b.x} ${b.top - 1}`;
  const [y, z] = a.rank < b.rank ? [a.bottom, b.top - 1] : [a.top, b.bottom + 1];
  const middle = (y + z) / 2;
  return `M${a.x} ${y}C${a.x} ${middle} ${b.x} ${middle} ${b.x} ${z}`;
}

function bracketOf(a, b, { block }) {
  const [y, turn, aside] = [a.bottom - block * 0.2, a.bottom + 6, a.x < b.x ? 8 : -8]; // beside the ends of the arrows
  return `M${a.x + aside} ${y}V${turn}H${b.x - aside}V${y}`;
}
