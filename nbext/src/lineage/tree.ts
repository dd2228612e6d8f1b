/**
 * The lineage of a session, drawn like a git log: what widget and panel both show.
 *
 * `show` may be called as often as something changes: rows stay where they are, and with them
 * focus, selection, folds, scroll position and what is just being filled in.
 */

import type { LineageService, LineageView } from './facts';
import { type Deed, offers, type Offers, withoutDoubles } from './actions';
import { briefly } from './briefly';
import { colourNumbers } from './colours';
import { Controls, type Zoom, ZOOMS } from './controls';
import { Deeds } from './deeds';
import { SideDesk } from './desk';
import { Doing } from './doing';
import { el, keepKeys } from './dom';
import { Hover } from './hover';
import * as keyboard from './keyboard';
import { branchOf, type Subject, tipKey, wentBack } from './layout';
import { Menu } from './menu';
import { RowList } from './row_list';
import { TreeState } from './state';
import { Status } from './status';
import { ensureStyles } from './styles';
import { Tables } from './table';

export class LineageTree {
  private readonly element = el('div', 'bp-lineage');
  private readonly controls = new Controls();
  private readonly state = new TreeState();
  private readonly rows = new RowList();
  private readonly tables = new Tables();
  private readonly status = new Status();
  private readonly hover = new Hover();
  private readonly aloud = el('div', 'bp-aloud');
  private readonly main = el('div', 'bp-main');
  private readonly desk: SideDesk;
  private readonly menu: Menu;
  private readonly doing: Doing;
  private readonly deeds: Deeds;
  private readonly ends = new AbortController();
  private readonly resized: ResizeObserver | null;
  private view: LineageView | null = null;
  /** The size of rows in what is drawn next. */
  zoom: Zoom = 'normal';
  private isTable = false;
  private hasDetails = true;

  constructor(
    host: HTMLElement,
    private readonly service: LineageService
  ) {
    this.doing = new Doing(service, () => this.draw());
    this.desk = new SideDesk(words => this.say(words));
    this.desk.onDone = hadFocus => {
      this.draw();
      if (hadFocus) {
        this.rows.focusStop();
      }
    };
    this.deeds = new Deeds(this.doing, this.desk, () => this.view);
    this.menu = new Menu(({ deed, group }) => this.perform(deed, group));
    this.build();
    this.listen();
    this.resized = this.rows.watchWidth(() => this.draw());
    host.append(this.element);
    ensureStyles(this.element);
  }

  /** Draw a view; what is the same as before is left alone. */
  show(view: LineageView): void {
    const before = this.view;
    this.view = view;
    ensureStyles(this.element);
    this.state.show(view, before);
    const here = view.current === null ? null : tipKey(view.current);
    const wasAt = this.rows.isInSight(here) ? this.rows.placeIn(here) : undefined;
    this.draw();
    const moved = before !== null && before.current !== view.current;
    const isElsewhere = wasAt !== undefined && this.rows.placeIn(here) !== wasAt;
    if (before === null || moved || isElsewhere || wentBack(before, view)) {
      this.rows.bringIntoSight(here);
    }
    if (moved && view.current) {
      this.say(`The notebook is on ${view.current} now.`);
    }
  }

  /** Give the keyboard to the tree. */
  focus(): void {
    this.rows.focusStop();
  }

  dispose(): void {
    this.ends.abort();
    this.resized?.disconnect();
    this.doing.dispose();
    this.status.dispose();
    this.hover.away();
    this.menu.close(false);
    this.element.remove();
  }

  private build(): void {
    this.element.setAttribute('role', 'group');
    this.aloud.setAttribute('role', 'status');
    this.tables.element.hidden = true;
    this.main.append(this.rows.element, this.tables.element);
    const middle = el('div', 'bp-middle');
    middle.append(this.main, this.desk.element);
    this.element.append(
      this.controls.element,
      middle,
      this.status.element,
      this.aloud,
      this.menu.element,
      this.hover.element
    );
  }

  private listen(): void {
    const { signal } = this.ends;
    const on = <K extends keyof HTMLElementEventMap>(
      name: K,
      node: HTMLElement,
      heard: (event: HTMLElementEventMap[K]) => void
    ): void => node.addEventListener(name, heard, { signal });
    on('click', this.element, event => this.onClick(event));
    on('keydown', this.element, event => this.onKey(event));
    keepKeys(this.element, signal);
    on('contextmenu', this.rows.tree, event => this.onContextMenu(event));
    on('pointermove', this.rows.tree, event => this.onPointer(event));
    on('pointerleave', this.rows.tree, () => this.hover.away());
    on('scroll', this.rows.scroll, () => {
      this.hover.away();
      this.rows.rememberScroll();
    });
    on('input', this.controls.search, () => {
      this.state.query = this.controls.search.value;
      this.draw();
      this.rows.bringIntoSight(this.rows.nextFound(null, 0));
    });
    document.addEventListener('pointerdown', event => this.onPointerDown(event), { signal });
  }

  private draw(): void {
    const { view } = this;
    if (view === null) {
      return;
    }
    const found = this.state.found();
    const busy = new Set([...view.under_way, ...this.doing.list()].map(({ branch }) => branch));
    const colours = colourNumbers(view.branches);
    const around = { view, colours, chosen: this.state.chosen, stop: null, found, busy };
    this.rows.show(this.state.placed, this.state.folds, around, this.zoom);
    this.drawDesk(view);
    this.status.show(view, this.doing.list());
    const count = found === null ? '' : `${found.size || 'none'} of ${this.state.placed.length}`;
    this.controls.show(this.zoom, this.isTable, this.hasDetails, count);
    if (this.isTable) {
      this.tables.show(view);
    }
    this.element.setAttribute('aria-label', `Lineage of ${view.key}`);
  }

  private drawDesk(view: LineageView): void {
    const subject = this.state.subject(this.state.chosen);
    this.desk.element.hidden = !(this.hasDetails || this.desk.isAsking) || subject === null;
    this.desk.element.classList.toggle('bp-asking', this.desk.isAsking);
    if (subject !== null) {
      this.desk.show(subject, view, this.offersOf(subject, view));
    }
  }

  /** What is offered; what is being done already is not offered once more. */
  private offersOf(subject: Subject, view: LineageView): Offers {
    return withoutDoubles(
      offers(subject, view, this.service),
      this.doing.list(),
      branchOf(subject)
    );
  }

  private choose(key: string, withFocus = true): void {
    const row = this.rows.at(key);
    if (row === undefined) {
      return;
    }
    if (row.run === 0) {
      this.state.chosen = key;
    }
    this.rows.stopAt(key);
    this.draw();
    if (withFocus) {
      this.rows.focusStop();
    }
  }

  private fold(key: string, folded: boolean): void {
    this.state.folds.set(key, folded);
    this.rows.stopAt(key);
    this.draw();
    this.rows.focusStop();
  }

  private foldAll(folded: boolean): void {
    this.state.foldAll(folded, this.view?.current ?? null);
    this.draw();
  }

  private perform(deed: Deed, group: 'checkpoint' | 'branch'): void {
    const { view } = this;
    const subject = this.state.subject(this.state.chosen);
    if (view === null || subject === null) {
      return;
    }
    const about =
      group === 'branch' ? (this.state.subject(tipKey(branchOf(subject))) ?? subject) : subject;
    void this.deeds.perform(deed, about);
    this.drawDesk(view);
  }

  private openMenu(key: string, x: number, y: number): void {
    const subject = this.state.subject(key);
    if (subject === null || this.view === null) {
      return;
    }
    this.hover.away();
    const title = this.rows.titleOf(key);
    this.menu.open(title, this.offersOf(subject, this.view), x, y, () => this.rows.focusStop());
  }

  private onClick(event: MouseEvent): void {
    const target = event.target as Element;
    const does = target.closest<HTMLElement>('[data-do]');
    if (does?.dataset['do']) {
      if (does.getAttribute('aria-disabled') !== 'true') {
        this.onButton(does.dataset['do'], does);
      }
      return;
    }
    const key = target.closest<HTMLElement>('.bp-row')?.dataset['key'];
    const row = key === undefined ? undefined : this.rows.at(key);
    if (row === undefined) {
      return;
    }
    const isTwisty = target.closest('.bp-twisty') !== null;
    if (row.folded !== null && (isTwisty || row.run > 0)) {
      this.fold(row.key, !row.folded);
    } else {
      this.choose(row.key);
    }
  }

  private onButton(does: string, node: HTMLElement): void {
    switch (does) {
      case 'here':
        return this.goHere();
      case 'fold-all':
      case 'unfold-all':
        return this.foldAll(does === 'fold-all');
      case 'zoom':
        this.zoom = ZOOMS[(ZOOMS.indexOf(this.zoom) + 1) % ZOOMS.length] ?? 'normal';
        return this.draw();
      case 'table':
        this.isTable = !this.isTable;
        this.tables.element.hidden = !this.isTable;
        this.rows.element.hidden = this.isTable;
        return this.draw();
      case 'details':
        this.hasDetails = !this.hasDetails;
        return this.draw();
      case 'quieten':
        this.desk.quieten();
        return this.rows.focusStop();
      default: {
        const group = node.closest<HTMLElement>('[data-group]')?.dataset['group'];
        this.perform(does as Deed, group === 'branch' ? 'branch' : 'checkpoint');
      }
    }
  }

  private goHere(): void {
    const key = this.view?.current ? tipKey(this.view.current) : null;
    if (key === null) {
      return;
    }
    this.state.reveal(key);
    this.draw();
    this.choose(key);
    this.rows.bringIntoSight(key);
  }

  private onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    const target = event.target as HTMLElement;
    const isTyping = target.matches('input, textarea');
    if (event.key === 'Escape') {
      this.onEscape(event, target);
    } else if (target === this.controls.search && event.key === 'Enter') {
      this.goToFound(event.shiftKey ? -1 : 1);
      event.preventDefault();
    } else if (event.key === '/' && !isTyping) {
      this.controls.search.focus();
      this.controls.search.select();
      event.preventDefault();
    } else if (this.rows.tree.contains(target)) {
      this.onRowKey(event);
    }
  }

  private onEscape(event: KeyboardEvent, target: HTMLElement): void {
    if (target === this.controls.search) {
      this.controls.search.value = '';
      this.state.query = '';
      this.draw();
      this.rows.focusStop();
    } else if (!this.hover.away() && !this.desk.close()) {
      return;
    }
    this.draw();
    event.preventDefault();
    event.stopPropagation();
  }

  private onRowKey(event: KeyboardEvent): void {
    const at = this.rows.stopIndex();
    const row = this.rows.shown[at];
    if (row === undefined) {
      return;
    }
    const folded = keyboard.folds(event.key, row);
    const next = keyboard.goes(event.key, this.rows.shown, at);
    if (folded !== null) {
      this.fold(row.key, folded);
    } else if (next !== null) {
      this.choose(this.rows.shown[next]?.key ?? row.key);
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.enter(row.key);
    } else if (!event.key.startsWith('Arrow')) {
      return;
    }
    event.preventDefault();
  }

  private enter(key: string): void {
    const row = this.rows.at(key);
    const box = this.rows.placeOf(key);
    if (row !== undefined && row.run > 0) {
      this.fold(key, !row.folded);
    } else if (box !== undefined) {
      this.choose(key);
      this.openMenu(key, box.left + this.rows.graphWidth, box.bottom);
    }
  }

  private goToFound(step: number): void {
    const key = this.rows.nextFound(this.state.chosen, step);
    if (key !== null) {
      this.choose(key, false);
      this.rows.bringIntoSight(key);
      this.say(this.rows.titleOf(key));
    }
  }

  private onContextMenu(event: MouseEvent): void {
    const key = (event.target as Element).closest<HTMLElement>('.bp-row')?.dataset['key'];
    if (key !== undefined && this.state.subject(key) !== null) {
      // JupyterLab would show a menu of its own beside ours.
      event.preventDefault();
      event.stopPropagation();
      this.choose(key);
      this.openMenu(key, event.clientX, event.clientY);
    }
  }

  private onPointer(event: PointerEvent): void {
    const node = (event.target as Element).closest<HTMLElement>('.bp-row');
    const row = this.rows.at(node?.dataset['key'] ?? '');
    const { view } = this;
    if (node && row && view !== null && event.pointerType !== 'touch' && !this.menu.isOpen) {
      this.hover.over(row.key, node, event.clientX, () => briefly(row, view));
    }
  }

  private onPointerDown(event: PointerEvent): void {
    this.hover.away();
    if (this.menu.isOpen && !this.menu.element.contains(event.target as Node)) {
      this.menu.close(false);
    }
  }

  private say(words: string): void {
    this.aloud.textContent = words;
  }
}
