// Dragging a block of the schedule editor along its rank. The board holds the pointer, because blocks may be moved
// or replaced under it: a run ends, another view of the same editor moves something.

const OUTSIDE = 48; // pixels above or below the board from which a drop puts the block back
const EDGE = 32; // pixels from an end of the board within which it scrolls along

/** `spot(id)` is { rank, place } or nothing; `pick(id)` and `drop(id, to)` are called, with null for a drop outside. */
function dragging({ board, slot, nodes, rowsOf, spot, geometry, pick, drop }) {
  let held = null;
  let timer = 0;

  function take(event) {
    const node = event.target.closest(".pl-block");
    if (!node || event.button || held) return;
    event.preventDefault();
    const { id } = node.dataset;
    pick(id);
    board.setPointerCapture(event.pointerId);
    const grip = event.clientX - node.getBoundingClientRect().left;
    held = { id, grip, pointer: event.pointerId, from: event.clientX, x: event.clientX, y: event.clientY, isMoved: false };
  }
  function follow(event) {
    if (event.pointerId !== held?.pointer) return;
    Object.assign(held, { x: event.clientX, y: event.clientY });
    held.isMoved ||= Math.abs(held.x - held.from) >= 4;
    show();
  }
  function show() {
    if (!held?.isMoved) return;
    const [node, here, box] = [nodes.get(held.id), spot(held.id), board.getBoundingClientRect()];
    if (!here) return end(false); // split, merged or loaded away meanwhile
    const { left, scale, block } = geometry();
    const track = node.parentNode;
    const start = track.getBoundingClientRect().left;
    node.classList.add("pl-lifted");
    board.classList.add("pl-dragging");
    const most = track.offsetWidth - node.offsetWidth; // further out it would widen what the board can scroll
    const to = Math.min(most, Math.max(0, held.x - held.grip - start));
    node.style.transform = `translate(${to - parseFloat(node.style.left)}px, -4px)`;
    const others = rowsOf()[here.rank].blocks.filter((_, place) => place !== here.place);
    held.to = others.filter((one) => (one.start + one.end) / 2 < (held.x - start) / scale).length;
    held.isOutside = held.y < box.top - OUTSIDE || held.y > box.bottom + OUTSIDE;
    const at = held.to < others.length ? others[held.to].start : (others.at(-1)?.end ?? 0);
    slot.hidden = held.isOutside;
    Object.assign(slot.style, { left: `${left + at * scale - 2}px`, top: `${track.closest(".pl-row").offsetTop - 4}px`, height: `${block + 8}px` });
    const push = held.x > box.right - EDGE ? 1 : held.x < box.left + left + EDGE ? -1 : 0;
    clearTimeout(timer);
    if (push) timer = setTimeout(() => scroll(14 * push), 16);
  }
  function scroll(by) {
    const before = board.scrollLeft;
    board.scrollLeft += by;
    if (board.scrollLeft !== before) show();
  }
  function end(isDrop) {
    if (!held) return;
    const { id, to, isMoved, isOutside, pointer } = held;
    held = null;
    clearTimeout(timer);
    if (board.hasPointerCapture(pointer)) board.releasePointerCapture(pointer);
    board.classList.remove("pl-dragging");
    nodes.get(id)?.classList.remove("pl-lifted");
    nodes.get(id)?.style.removeProperty("transform");
    slot.hidden = true;
    if (isDrop && isMoved) drop(id, isOutside ? null : to);
  }
  const mine = (isDrop) => (event) => event.pointerId === held?.pointer && end(isDrop);
  const events = { pointerdown: take, pointermove: follow, pointerup: mine(true), pointercancel: mine(false), lostpointercapture: mine(false) };
  return { events, show, cancel: () => end(false), isOn: () => held !== null };
}
