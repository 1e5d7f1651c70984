// Dragging a block of the schedule editor along its rank. The board holds the pointer, because blocks may be moved
// or replaced under it: a run ends, another view of the same editor moves something.

const OUTSIDE = 48; // pixels above or below the board from which a drop puts the block back
const EDGE = 32; // pixels from an end of the board within which it scrolls along

/** One drag at a time; the editor hears `grip(id)` and `letGo(id, to)`, with null for a drop outside. */
class Dragging {
  constructor(editor) {
    this.editor = editor;
    this.held = null; // { id, grip, pointer, from, x, y, isMoved, to, isOutside }
    this.timer = 0;
    const mine = (isDrop) => (event) => event.pointerId === this.held?.pointer && this.end(isDrop);
    this.events = {
      pointerdown: (event) => this.take(event), pointermove: (event) => this.follow(event),
      pointerup: mine(true), pointercancel: mine(false), lostpointercapture: mine(false),
    };
  }
  get isOn() {
    return this.held !== null;
  }
  cancel() {
    this.end(false);
  }
  take(event) {
    const node = event.target.closest(".pl-block");
    if (!node || event.button || this.held) return;
    event.preventDefault();
    const { id } = node.dataset;
    this.editor.grip(id);
    this.editor.board.setPointerCapture(event.pointerId);
    const grip = event.clientX - node.getBoundingClientRect().left;
    this.held = { id, grip, pointer: event.pointerId, from: event.clientX, x: event.clientX, y: event.clientY, isMoved: false };
  }
  follow(event) {
    if (event.pointerId !== this.held?.pointer) return;
    Object.assign(this.held, { x: event.clientX, y: event.clientY });
    this.held.isMoved ||= Math.abs(this.held.x - this.held.from) >= 4;
    this.show();
  }
  /** Draw the block under the pointer and the slot where it would fall. */
  show() {
    const { held, editor } = this;
    if (!held?.isMoved) return;
    const here = editor.spot(held.id);
    if (!here) return this.end(false); // split, merged or loaded away meanwhile
    const [node, { left, scale }] = [editor.nodes.get(held.id), editor.geometry];
    const track = node.parentNode;
    const start = track.getBoundingClientRect().left;
    node.classList.add("pl-lifted");
    editor.board.classList.add("pl-dragging");
    const most = track.offsetWidth - node.offsetWidth; // further out it would widen what the board can scroll
    const at = Math.min(most, Math.max(0, held.x - held.grip - start));
    node.style.transform = `translate(${at - parseFloat(node.style.left)}px, -4px)`;
    const others = editor.rows[here.rank].blocks.filter((_, place) => place !== here.place);
    held.to = others.filter((one) => (one.start + one.end) / 2 < (held.x - start) / scale).length;
    const box = editor.board.getBoundingClientRect();
    held.isOutside = held.y < box.top - OUTSIDE || held.y > box.bottom + OUTSIDE;
    this.showSlot(others, track);
    const push = held.x > box.right - EDGE ? 1 : held.x < box.left + left + EDGE ? -1 : 0;
    clearTimeout(this.timer);
    if (push) this.timer = setTimeout(() => this.scroll(14 * push), 16);
  }
  showSlot(others, track) {
    const { slot, geometry: { left, scale, block } } = this.editor;
    const { to, isOutside } = this.held;
    const at = to < others.length ? others[to].start : (others.at(-1)?.end ?? 0);
    slot.hidden = isOutside;
    Object.assign(slot.style, { left: `${left + at * scale - 2}px`, top: `${track.closest(".pl-row").offsetTop - 4}px`, height: `${block + 8}px` });
  }
  scroll(by) {
    const { board } = this.editor;
    const before = board.scrollLeft;
    board.scrollLeft += by;
    if (board.scrollLeft !== before) this.show();
  }
  end(isDrop) {
    if (!this.held) return;
    const { board, nodes, slot } = this.editor;
    const { id, to, isMoved, isOutside, pointer } = this.held;
    this.held = null;
    clearTimeout(this.timer);
    if (board.hasPointerCapture(pointer)) board.releasePointerCapture(pointer);
    board.classList.remove("pl-dragging");
    nodes.get(id)?.classList.remove("pl-lifted");
    nodes.get(id)?.style.removeProperty("transform");
    slot.hidden = true;
    if (isDrop && isMoved) this.editor.letGo(id, isOutside ? null : to);
  }
}
