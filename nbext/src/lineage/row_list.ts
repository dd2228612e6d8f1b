/** The rows in the page with the rails beside them, kept by key from one picture to the next. */

import { arrange, el, focusedBeside } from './dom';
import { type Folds, type Shown, visible } from './folding';
import { Graph, type Scale } from './graph';
import { branchOf, isDropped, isHere, type Placed } from './layout';
import { type Around, Row } from './rows';
import type { Zoom } from './controls';

const SCALES: Record<Zoom, Scale> = {
  compact: { row: 20, lane: 13, margin: 15 },
  normal: { row: 28, lane: 17, margin: 17 },
  large: { row: 38, lane: 22, margin: 20 }
};
/** The rails take no more of the width than this, however many there are. */
const MOST_OF_WIDTH = 0.36;
const NARROW = 320;
const FIRST_WIDTH = 720;

export class RowList {
  readonly element = el('div', 'bp-listing');
  readonly scroll = el('div', 'bp-scroll');
  readonly tree = el('div', 'bp-tree');
  shown: Shown[] = [];
  graphWidth = 0;
  private readonly graph = new Graph();
  private readonly empty = el('div', 'bp-empty', 'Nothing has been saved in this session yet.');
  private readonly rows = new Map<string, Row>();
  private places = new Map<string, number>();
  private found: ReadonlySet<string> | null = null;
  private stop: string | null = null;
  private width = FIRST_WIDTH;
  private rowHeight = SCALES.normal.row;
  private isAway = true;
  // Remembered, since to ask the page for them would have it lay itself out at each update.
  private scrolledTo = 0;
  private height = 0;

  constructor() {
    this.tree.setAttribute('role', 'tree');
    this.tree.setAttribute('aria-label', 'Checkpoints and branches');
    const head = el('div', 'bp-head');
    head.setAttribute('aria-hidden', 'true');
    const what = el('span', '', 'checkpoint');
    what.append(el('span', 'bp-head-more', ' or branch'));
    head.append(
      what,
      el('span', 'bp-figure bp-first', 'paused'),
      el('span', 'bp-figure bp-second', 'new data')
    );
    const rows = el('div', 'bp-rows');
    rows.append(this.graph.element, this.tree);
    this.scroll.append(rows, this.empty);
    this.element.append(head, this.scroll);
  }

  /** Call back when the width is another, which the rails are drawn for; null where none can say. */
  watchWidth(changed: () => void): ResizeObserver | null {
    if (typeof ResizeObserver === 'undefined') {
      return null;
    }
    const observer = new ResizeObserver(entries => {
      const { width = 0, height = 0 } = entries.at(-1)?.contentRect ?? {};
      const wasSeen = height < this.height && this.isInSight(this.stop);
      this.height = height;
      if (wasSeen && height > 0) {
        // A question that was laid below may have covered it.
        this.bringIntoSight(this.stop);
      }
      if (width > 0 && this.isAway) {
        // A notebook takes cells that are out of sight out of the page, and their scroll with them.
        this.scroll.scrollTop = this.scrolledTo;
        if (this.scrolledTo === 0) {
          this.bringIntoSight(this.stop);
        }
      }
      this.isAway = width === 0;
      if (width > 0 && Math.abs(width - this.width) > 1) {
        this.width = width;
        changed();
      }
    });
    observer.observe(this.scroll);
    return observer;
  }

  show(placed: readonly Placed[], folds: Folds, around: Around, zoom: Zoom): void {
    const focused = this.focusedRow();
    this.shown = visible(placed, folds, around.found);
    this.found = around.found;
    this.places = new Map(this.shown.map(({ key }, place) => [key, place]));
    this.stop = this.stopFor(around);
    const elements = this.shown.map(each => {
      let row = this.rows.get(each.key);
      if (row === undefined) {
        row = new Row(each.key);
        this.rows.set(each.key, row);
      }
      row.update(each, { ...around, stop: this.stop });
      return row.element;
    });
    for (const key of this.rows.keys()) {
      if (!this.places.has(key)) {
        this.rows.delete(key);
      }
    }
    arrange(this.tree, elements);
    this.drawGraph(around, zoom);
    this.empty.hidden = this.shown.length > 0;
    if (focused !== null && this.focusedRow() !== focused) {
      // A row that was moved or folded away has lost the focus.
      this.focusStop();
    }
  }

  /** Called when someone scrolls, for when the rows have been out of the page. */
  rememberScroll(): void {
    if (!this.isAway) {
      this.scrolledTo = this.scroll.scrollTop;
    }
  }

  /** The place of a row among those shown. */
  placeIn(key: string | null): number | undefined {
    return key === null ? undefined : this.places.get(key);
  }

  at(key: string): Shown | undefined {
    const place = this.places.get(key);
    return place === undefined ? undefined : this.shown[place];
  }

  titleOf(key: string): string {
    return this.rows.get(key)?.element.querySelector('.bp-title')?.textContent ?? '';
  }

  /** The next row that a search has found, from one on, round and round. */
  nextFound(from: string | null, step: number): string | null {
    const found = this.shown.filter(({ key }) => this.found?.has(key));
    const at = found.findIndex(({ key }) => key === from);
    const next = at < 0 ? 0 : (at + step + found.length) % found.length;
    return found[next]?.key ?? null;
  }

  stopAt(key: string): void {
    this.stop = key;
  }

  stopIndex(): number {
    return this.stop === null ? -1 : (this.places.get(this.stop) ?? -1);
  }

  focusStop(): void {
    const key = this.stop;
    if (key !== null) {
      this.rows.get(key)?.element.focus({ preventScroll: true });
      this.bringIntoSight(key);
    }
  }

  placeOf(key: string): DOMRect | undefined {
    return this.rows.get(key)?.element.getBoundingClientRect();
  }

  isInSight(key: string | null): boolean {
    const place = this.placeIn(key);
    const top = (place ?? -1) * this.rowHeight - this.scrolledTo;
    return place !== undefined && top >= 0 && top < this.height;
  }

  /** Scroll the rows, and nothing around them, as little as will do. */
  bringIntoSight(key: string | null): void {
    const place = this.placeIn(key);
    if (place === undefined) {
      return;
    }
    const { scrollTop, clientHeight } = this.scroll;
    const top = place * this.rowHeight;
    const isAway = top < scrollTop - clientHeight || top > scrollTop + 2 * clientHeight;
    if (isAway) {
      // What is far away is shown amid what is around it.
      this.scroll.scrollTop = top - clientHeight / 2;
    } else if (top < scrollTop) {
      this.scroll.scrollTop = top;
    } else if (top + this.rowHeight > scrollTop + clientHeight) {
      this.scroll.scrollTop = top + this.rowHeight - clientHeight;
    }
  }

  /** Where the keyboard stops: where it was, or else at what is chosen, or what hides that. */
  private stopFor({ chosen }: Around): string | null {
    for (const key of [this.stop, chosen]) {
      if (key !== null && this.places.has(key)) {
        return key;
      }
      const over = this.shown.find(({ hides }) => hides.some(each => each.key === key));
      if (over !== undefined) {
        return over.key;
      }
    }
    return this.shown.at(-1)?.key ?? null;
  }

  private focusedRow(): string | null {
    const active = focusedBeside(this.tree);
    return active instanceof HTMLElement && this.tree.contains(active)
      ? (active.dataset['key'] ?? null)
      : null;
  }

  private drawGraph({ view, colours }: Around, zoom: Zoom): void {
    const scale = this.width < NARROW ? closer(SCALES[zoom]) : SCALES[zoom];
    const lanes = Math.max(0, ...this.shown.map(({ placed }) => placed.lane));
    const room = this.width * MOST_OF_WIDTH - 2 * scale.margin;
    const lane = lanes === 0 ? scale.lane : Math.max(2, Math.min(scale.lane, room / lanes));
    this.graphWidth = Math.round(2 * scale.margin + lanes * lane);
    this.rowHeight = scale.row;
    this.element.dataset['zoom'] = zoom;
    this.element.style.setProperty('--bp-graph', `${this.graphWidth}px`);
    this.element.style.setProperty('--bp-row', `${scale.row}px`);
    const marked = this.shown.map(shown => {
      const { subject } = shown.placed;
      return {
        shown,
        colour: colours.get(branchOf(subject)),
        isCurrent: shown.run === 0 && isHere(subject, view),
        isQuiet: isDropped(subject)
      };
    });
    this.graph.draw(marked, { ...scale, lane }, this.graphWidth);
  }
}

function closer({ row, lane, margin }: Scale): Scale {
  return { row, lane: Math.min(lane, 13), margin: Math.min(margin, 13) };
}
