// Dragging a block of the schedule editor along its rank: the others make way, and it falls where it is seen. The board
// holds the pointer, because blocks may be replaced under it: a run ends, another view of the same editor moves one.

/** One drag at a time on a board of blocks; `drop(id, place)` hears of it. */
class Dragging {
  constructor(board, drop) {
    this.board = board;
    this.drop = drop;
    this.slot = element("div", { class: "pl-slot" }); // where the block would fall
    this.held = null; // { id, pointer, grip, from, x, isMoved, place, to }
    const mine = (react) => (event) => event.pointerId === this.held?.pointer && react(event);
    const [drops, ends] = [mine(() => this.end(true)), mine(() => this.end(false))];
    this.events = {
      pointerdown: (event) => this.take(event), pointermove: mine((event) => this.follow(event)),
      pointerup: drops, pointercancel: ends, lostpointercapture: ends,
    };
  }
  take(event) {
    const node = event.target.closest(".pl-block");
    if (!node || event.button || this.held) return;
    event.preventDefault();
    node.focus();
    this.board.setPointerCapture(event.pointerId);
    const [{ clientX: x, pointerId: pointer }, { id }] = [event, node.dataset];
    this.held = { id, pointer, grip: x - node.getBoundingClientRect().left, from: x, x, isMoved: false };
  }
  follow({ clientX: x }) {
    this.held.x = x;
    this.held.isMoved ||= Math.abs(x - this.held.from) >= 4;
    this.show();
  }
  /** The board was drawn again: blocks that made way stand where they belong now, unless the drag goes on. */
  redraw() {
    for (const node of this.board.querySelectorAll(".pl-block")) node.style.translate = "";
    this.show();
  }
  /** Draw the block under the pointer, and the others of its row where they make way for it. */
  show() {
    const { held, board } = this;
    if (!held?.isMoved) return;
    const node = board.querySelector(`[data-id="${held.id}"]`);
    if (!node) return this.end(false); // split or merged meanwhile
    const row = node.parentNode;
    const nodes = [...row.querySelectorAll(".pl-block")];
    const boxes = nodes.map(({ style }) => ({ left: parseFloat(style.left), width: parseFloat(style.width) }));
    held.place = nodes.indexOf(node);
    const own = boxes[held.place];
    const places = boxes.map(({ left, width }, place) => (place > held.place ? left + width - own.width : left));
    const most = row.offsetWidth - own.width; // further out it would widen what the board can scroll
    const at = Math.min(most, Math.max(0, held.x - held.grip - row.getBoundingClientRect().left));
    held.to = places.reduce((best, left, place) => (Math.abs(left - at) < Math.abs(places[best] - at) ? place : best), held.place);
    const { to } = held;
    nodes.forEach((other, place) => {
      const way = place > held.place && place <= to ? -1 : place < held.place && place >= to ? 1 : 0;
      other.style.translate = `${way * own.width}px`;
    });
    node.style.translate = `${at - own.left}px -4px`;
    node.classList.add("pl-lifted");
    Object.assign(this.slot.style, { left: `${places[to]}px`, width: `${own.width}px` });
    if (this.slot.parentNode !== row) row.append(this.slot);
  }
  end(isDrop) {
    if (!this.held) return;
    const { id, place, to, isMoved, pointer } = this.held;
    this.held = null;
    if (this.board.hasPointerCapture(pointer)) this.board.releasePointerCapture(pointer);
    const node = this.board.querySelector(".pl-lifted");
    node?.classList.remove("pl-lifted");
    const goes = isDrop && isMoved && to !== place;
    if (goes) node.style.translate = `${parseFloat(this.slot.style.left) - parseFloat(node.style.left)}px`; // until Python answers
    else this.redraw();
    this.slot.remove();
    if (goes) this.drop(id, to);
  }
}
