/** The cells of two lines of work as a table: a body for each pair, a row for each line. */
import {
  alignCells,
  alignLines,
  type CellPair,
  type LinePair,
  type PairKind,
  type Piece
} from './alignment';
import { button, el } from './lineage/dom';
import type { CellText } from './lineage/facts';
import { counted } from './lineage/formats';

export type Side = 'left' | 'right';

/** A branch as it is compared. */
export interface Compared {
  name: string;
  /** What it is now, and where its outputs are, in words. */
  words: string;
  cells: readonly CellText[];
  /** How many of the first ran before it parted from the other, as far as that is known. */
  begun?: number;
}

/** What the page knows of the outputs of runs. */
export interface Outputs {
  /** Draw those of a run, if they are shown somewhere in this page; whether they are. */
  draw(side: Side, cell: CellText, place: HTMLElement): boolean;
  /** Whether both are known, and are not alike. */
  differ(left: CellText, right: CellText): boolean;
}

type Sign = '' | '=' | '≠' | '−' | '+';

const SIDES: readonly Side[] = ['left', 'right'];
const DIFFERENCES = 'tbody[data-differs]';

export class CellsTable {
  readonly node = el('table', 'bp-Compare-table');
  private readonly names: Record<Side, string>;

  constructor(
    left: Compared,
    right: Compared,
    private readonly outputs: Outputs
  ) {
    this.names = { left: left.name, right: right.name };
    const pairs = alignCells(left.cells, right.cells, left.begun);
    const begun = pairs.filter(({ kind }) => kind === 'common');
    this.node.append(
      el('caption', 'bp-Compare-summary', this.summary(pairs)),
      this.columns(),
      this.head(left, right),
      ...(begun.length > 0 ? this.beginning(begun) : []),
      ...pairs.slice(begun.length).map(pair => this.body(pair))
    );
  }

  /** Go to the next difference, or back to the one before; whether there is any. */
  step(by: 1 | -1): boolean {
    const differing = [...this.node.querySelectorAll<HTMLElement>(DIFFERENCES)];
    const at = differing.findIndex(body => body.contains(document.activeElement));
    const from = at < 0 && by < 0 ? 0 : at;
    const next = differing[(from + by + differing.length) % differing.length];
    next?.focus();
    next?.scrollIntoView({ block: 'nearest' });
    return next !== undefined;
  }

  private summary(pairs: readonly CellPair[]): string {
    const count = (wanted: PairKind): number => pairs.filter(({ kind }) => kind === wanted).length;
    const words = [
      `${counted(count('common'), 'cell')} in common`,
      `${count('same')} the same`,
      `${count('changed')} changed`,
      `${count('left')} in ${this.names.left} alone`,
      `${count('right')} in ${this.names.right} alone`
    ];
    return `${words.join(', ')}.`;
  }

  private columns(): HTMLElement {
    const group = el('colgroup');
    group.append(el('col', 'bp-Compare-signs'), el('col'), el('col'));
    return group;
  }

  private head(left: Compared, right: Compared): HTMLElement {
    const head = el('thead');
    const row = head.insertRow();
    row.append(el('td'));
    for (const side of [left, right]) {
      const heading = el('th', 'bp-Compare-branch');
      heading.scope = 'col';
      heading.append(el('span', '', side.name), el('span', 'bp-Compare-words', side.words));
      row.append(heading);
    }
    return head;
  }

  /** What both began with is drawn once somebody asks for it. */
  private beginning(pairs: readonly CellPair[]): HTMLElement[] {
    const body = el('tbody', 'bp-Compare-begun');
    const words = `${counted(pairs.length, 'cell')} in common`;
    const toggle = button(words, 'toggle-beginning', 'bp-Compare-toggle');
    toggle.setAttribute('aria-expanded', 'false');
    const heading = el('th');
    heading.colSpan = 3;
    heading.scope = 'rowgroup';
    heading.append(toggle);
    body.insertRow().append(heading);
    let drawn: HTMLElement[] = [];
    toggle.addEventListener('click', () => {
      const isOpen = toggle.getAttribute('aria-expanded') === 'true';
      toggle.setAttribute('aria-expanded', String(!isOpen));
      if (drawn.length === 0) {
        drawn = pairs.map(() => el('tbody'));
        body.after(...drawn);
        // In the page first: what is drawn into it wants to know its size.
        pairs.forEach((pair, at) => this.fill(drawn[at] as HTMLTableSectionElement, pair));
      }
      for (const each of drawn) {
        each.hidden = isOpen;
      }
    });
    return [body];
  }

  private body(pair: CellPair): HTMLTableSectionElement {
    const body = el('tbody');
    this.fill(body, pair);
    return body;
  }

  private fill(body: HTMLTableSectionElement, pair: CellPair): void {
    const { kind, left, right } = pair;
    const outputsDiffer = left !== null && right !== null && this.outputs.differ(left, right);
    const differs = outputsDiffer || !['common', 'same'].includes(kind);
    body.dataset['kind'] = kind;
    body.tabIndex = -1;
    if (differs) {
      body.dataset['differs'] = '';
    }
    this.titleRow(body, pair, outputsDiffer);
    for (const line of alignedLines(pair)) {
      this.lineRow(body, line);
    }
    this.outputRow(body, pair, outputsDiffer);
  }

  private titleRow(body: HTMLTableSectionElement, pair: CellPair, outputsDiffer: boolean): void {
    const row = body.insertRow();
    row.className = 'bp-Compare-title';
    const words = this.kindWords(pair.kind, outputsDiffer);
    const heading = signed('th', outputsDiffer ? '≠' : signOf(pair.kind), words);
    heading.scope = 'rowgroup';
    row.append(heading);
    for (const side of SIDES) {
      const cell = pair[side];
      const counts = cell === null ? '' : `In [${cell.count}]`;
      // Seen words stand beside the number; whoever listens has heard them in the heading.
      const place = el('td', '', counts);
      if (cell !== null && pair.kind !== 'common') {
        const shown = el('span', 'bp-Compare-words', words);
        shown.ariaHidden = 'true';
        place.append(shown);
      }
      row.append(place);
    }
  }

  private kindWords(kind: PairKind, outputsDiffer: boolean): string {
    switch (kind) {
      case 'common':
        return 'in common';
      case 'same':
        return outputsDiffer ? 'same source, other outputs' : 'same source';
      case 'changed':
        return 'changed';
      default:
        return `in ${this.names[kind]} alone`;
    }
  }

  private lineRow(body: HTMLTableSectionElement, { kind, left, right }: LinePair): void {
    const row = body.insertRow();
    row.dataset['line'] = kind;
    const words = kind === 'left' || kind === 'right' ? `in ${this.names[kind]} alone` : 'changed';
    row.append(kind === 'same' ? el('td') : signed('td', signOf(kind), words));
    row.append(code(left, 'del'), code(right, 'ins'));
  }

  private outputRow(body: HTMLTableSectionElement, pair: CellPair, differ: boolean): void {
    if (pair.left === null && pair.right === null) {
      return;
    }
    const row = body.insertRow();
    row.className = 'bp-Compare-outputs';
    const heading = signed('th', differ ? '≠' : '', differ ? 'other outputs' : 'outputs');
    heading.scope = 'row';
    row.append(heading);
    let isShown = false;
    for (const side of SIDES) {
      const place = row.insertCell();
      const cell = pair[side];
      isShown = (cell !== null && this.outputs.draw(side, cell, place)) || isShown;
    }
    if (!isShown) {
      row.remove();
    }
  }
}

/** The lines of one side alone need no marks: the title has said it. */
function alignedLines({ left, right }: CellPair): LinePair[] {
  if (left !== null && right !== null) {
    return alignLines(left.source, right.source);
  }
  const only = left ?? right;
  return (only?.source ?? '').split('\n').map(text => {
    const line = [{ text, marked: false }];
    return left !== null
      ? { kind: 'left', left: line, right: null }
      : { kind: 'right', left: null, right: line };
  });
}

function signOf(kind: PairKind | LinePair['kind']): Sign {
  const signs = { common: '', same: '=', changed: '≠', left: '−', right: '+' } as const;
  return signs[kind];
}

/** A sign for who sees it, and its meaning for who listens. */
function signed<K extends 'td' | 'th'>(
  tag: K,
  sign: Sign,
  words: string
): HTMLElementTagNameMap[K] {
  const cell = el(tag, 'bp-Compare-sign');
  const shown = el('span', '', sign);
  shown.ariaHidden = 'true';
  cell.append(shown, el('span', 'bp-aloud', words));
  return cell;
}

function code(line: readonly Piece[] | null, tag: 'del' | 'ins'): HTMLTableCellElement {
  const cell = el('td', 'bp-Compare-code');
  if (line === null) {
    cell.classList.add('bp-mod-none');
    return cell;
  }
  const shown = el('code');
  for (const { text, marked } of line) {
    shown.append(marked ? el(tag, '', text) : text);
  }
  cell.append(shown);
  return cell;
}
