// Dragging a block of the schedule editor along its rank: the others make way, and it falls where it is seen. The board
// holds the pointer, because blocks may be replaced under it: a run ends, another view of the same editor moves one.

const OUTSIDE = 48; // pixels above or below the board from which a drop puts the block back
const EDGE = 32; // pixels from an end of the board within which it scrolls along

/** One drag at a time on a board of blocks; `drop(id, place)` hears of it, with null for a drop outside. */
class Dragging {
  constructor(board, drop) {
    this.board = board;
    this.drop = drop;
    this.slot = element("div", { class: "pl-slot" }); // where the block would fall
    this.held = null; // { id, pointer, grip, from, x, y, isMoved, place, to, isOutside }
    this.timer = 0;
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
    const [{ clientX: x, clientY: y, pointerId: pointer }, { id }] = [event, node.dataset];
    this.held = { id, pointer, grip: x - node.getBoundingClientRect().left, from: x, x, y, isMoved: false };
  }
  follow({ clientX: x, clientY: y }) {
    Object.assign(this.held, { x, y });
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
    const { top, bottom } = board.getBoundingClientRect();
    held.isOutside = held.y < top - OUTSIDE || held.y > bottom + OUTSIDE;
    const to = held.isOutside ? held.place : held.to;
    nodes.forEach((other, place) => {
      const way = place > held.place && place <= to ? -1 : place < held.place && place >= to ? 1 : 0;
      other.style.translate = `${way * own.width}px`;
    });
    node.style.translate = `${at - own.left}px -4px`;
    node.classList.add("pl-lifted");
    Object.assign(this.slot.style, { left: `${places[to]}px`, width: `${own.width}px` });
    if (this.slot.parentNode !== row) row.append(this.slot);
    this.scroll();
  }
  /** Scroll the board along while the pointer is at one of its ends. */
  scroll() {
    const { left, right } = this.board.getBoundingClientRect();
    const push = this.held.x > right - EDGE ? 14 : this.held.x < left + EDGE ? -14 : 0;
    clearTimeout(this.timer);
    if (!push) return;
    this.timer = setTimeout(() => {
      const before = this.board.scrollLeft;
      this.board.scrollLeft += push;
      if (this.board.scrollLeft !== before) this.show();
    }, 16);
  }
  end(isDrop) {
    if (!this.held) return;
    const { id, place, to, isMoved, isOutside, pointer } = this.held;
    this.held = null;
    clearTimeout(this.timer);
    if (this.board.hasPointerCapture(pointer)) this.board.releasePointerCapture(pointer);
    const node = this.board.querySelector(".pl-lifted");
    node?.classList.remove("pl-lifted");
    const goes = isDrop && isMoved && !isOutside && to !== place;
    if (goes) node.style.translate = `${parseFloat(this.slot.style.left) - parseFloat(node.style.left)}px`; // until Python answers
    else this.redraw();
    this.slot.remove();
    if (goes || (isDrop && isMoved && isOutside)) this.drop(id, isOutside ? null : to);
  }
}
