/** One row per checkpoint and branch: what it is called, what it is, what it cost. */

import type { LineageView } from './facts';
import { el, Written } from './dom';
import { foldedLine, type Shown } from './folding';
import * as say from './formats';
import { branchOf, isDropped, isHere, type Subject } from './layout';

/** What the rows are drawn from, besides what each of them is. */
export interface Around {
  view: LineageView;
  colours: ReadonlyMap<string, number>;
  chosen: string | null;
  /** The row that the keyboard is on. */
  stop: string | null;
  found: ReadonlySet<string> | null;
  /** Branches about which something is under way. */
  busy: ReadonlySet<string>;
}

/** What a row says. */
export interface Words {
  title: string;
  aside: string;
  here: string;
  first: string;
  second: string;
}

/** What is written in the row of a checkpoint or a tip. */
export function wordsOf(shown: Shown, view: LineageView): Words {
  const { subject } = shown.placed;
  if (shown.run > 0) {
    return runWords(shown);
  }
  const line = foldedLine(shown);
  const words =
    subject.kind === 'tip'
      ? tipWords(subject, view)
      : line === null
        ? checkpointWords(subject)
        : tipWords({ kind: 'tip', branch: line }, view);
  if (!shown.folded) {
    return words;
  }
  const inside = shown.hides.some(({ subject: it }) => isHere(it, view));
  return {
    ...words,
    aside: [words.aside, `${say.counted(shown.hidden, 'row')} folded away`]
      .filter(Boolean)
      .join(' \u00b7 '),
    here: inside ? 'you are in here' : words.here
  };
}

function runWords(shown: Shown): Words {
  const members = shown.folded ? shown.hides : [];
  const times = members.map(({ subject }) =>
    subject.kind === 'checkpoint' ? subject.checkpoint : null
  );
  let bytes = 0;
  for (const each of times) {
    bytes += each === null ? 0 : say.newBytes(each);
  }
  const first = times[0];
  const last = times.at(-1);
  const span = first && last ? `${say.titleOf(first)} to ${say.titleOf(last)}` : 'shown below';
  const title = say.counted(shown.run, 'checkpoint');
  return { title, aside: span, here: '', first: '', second: bytes > 0 ? say.size(bytes) : '' };
}

function checkpointWords(subject: Subject & { kind: 'checkpoint' }): Words {
  const { facts, cell, source } = subject.checkpoint;
  // A base's note is about the image, not about this session.
  const note = facts.kind === 'base' ? '' : facts.note;
  const ran = cell === null || !source ? '' : `In[${cell.count}] ${source}`;
  const pinned = facts.pinned ? 'pinned' : '';
  return {
    title: say.titleOf(subject.checkpoint),
    aside: [say.kindWords(facts.kind), pinned, note, ran].filter(Boolean).join(' \u00b7 '),
    here: '',
    first: say.milliseconds(facts.paused_ms),
    second: say.size(say.newBytes(subject.checkpoint))
  };
}

function tipWords(subject: Subject & { kind: 'tip' }, view: LineageView): Words {
  const { facts, lent_to } = subject.branch;
  const state = facts.state === 'lent' && lent_to ? `open as ${say.fileOf(lent_to)}` : facts.state;
  const here = facts.name === view.current;
  return {
    title: facts.name,
    aside: [state, facts.busy ? 'busy' : ''].filter(Boolean).join(' \u00b7 '),
    here: here ? (view.owner === null ? 'last here' : 'you are here') : '',
    first: facts.own_bytes === null ? '' : `${say.size(facts.own_bytes)} own`,
    second: facts.shared_bytes === null ? '' : `${say.size(facts.shared_bytes)} shared`
  };
}

/** The number at the end of a name that is long enough to be cut. */
const COUNTED = /(?<=.{4})[-_.~ ]\d{1,6}$/;

/** A row without words, to be copied: a thousand are made faster so than one by one. */
let blank: HTMLElement | null = null;

function blankRow(): HTMLElement {
  const row = el('div', 'bp-row');
  row.setAttribute('role', 'treeitem');
  const twisty = el('span', 'bp-twisty');
  twisty.setAttribute('aria-hidden', 'true');
  const words = el('span', 'bp-words');
  const here = el('span', 'bp-here-word');
  here.append(el('span', 'bp-here-before'), el('span'));
  const title = el('span', 'bp-title');
  title.append(el('span', 'bp-title-head'), el('span'));
  words.append(title, here, el('span', 'bp-aside'));
  const first = el('span', 'bp-figure bp-first');
  row.append(twisty, words, first, el('span', 'bp-figure bp-second'));
  return row;
}

/** A row in the page, kept from one picture to the next. */
export class Row {
  readonly element: HTMLElement;
  private readonly row: Written;
  private readonly twist: Written;
  private readonly title: Written;
  private readonly head: Written;
  private readonly tail: Written;
  private readonly aside: Written;
  private readonly here: Written;
  private readonly hereBefore: Written;
  private readonly first: Written;
  private readonly second: Written;
  private madeFrom: unknown[] = [];

  constructor(key: string) {
    blank ??= blankRow();
    this.element = blank.cloneNode(true) as HTMLElement;
    this.element.dataset['key'] = key;
    this.row = new Written(this.element);
    const [twisty, words, first, second] = this.element.children;
    const [title, here, aside] = words?.children ?? [];
    this.twist = new Written(twisty);
    this.title = new Written(title);
    this.head = new Written(title?.firstElementChild ?? undefined);
    this.tail = new Written(title?.lastElementChild ?? undefined);
    const [before, last] = here?.children ?? [];
    this.hereBefore = new Written(before);
    this.here = new Written(last);
    this.aside = new Written(aside);
    this.first = new Written(first);
    this.second = new Written(second);
  }

  update(shown: Shown, around: Around): void {
    const { subject } = shown.placed;
    if (this.isAsBefore(shown, around)) {
      return;
    }
    const words = wordsOf(shown, around.view);
    const branch = branchOf(subject);
    const line = foldedLine(shown);
    const isTip = (subject.kind === 'tip' && shown.run === 0) || line !== null;
    const isGone = line === null ? isDropped(subject) : line.facts.state === 'dropped';
    const busy = isTip && around.busy.has(branch);
    const here = words.here !== '';
    const found = around.found;
    const classes = [
      'bp-row',
      isTip ? 'bp-tip' : '',
      shown.run > 0 ? 'bp-run' : '',
      here ? 'bp-here' : '',
      isTip && isGone ? 'bp-gone' : '',
      around.chosen === shown.key ? 'bp-chosen' : '',
      found === null ? '' : found.has(shown.key) ? 'bp-found' : 'bp-dimmed'
    ];
    this.row.attribute('class', classes.filter(Boolean).join(' '));
    this.row.attribute('aria-level', String(shown.placed.lane + 1));
    this.row.attribute('aria-selected', String(around.chosen === shown.key));
    this.row.attribute('aria-current', here ? 'true' : null);
    this.row.attribute('aria-expanded', shown.folded === null ? null : String(!shown.folded));
    this.row.attribute('aria-busy', busy ? 'true' : null);
    this.row.attribute('tabindex', around.stop === shown.key ? '0' : '-1');
    this.row.attribute('aria-label', labelOf(shown, words, branch));
    const folding = shown.folded === null ? '' : shown.folded ? 'bp-closed' : 'bp-open';
    this.twist.attribute('class', `bp-twisty ${busy ? 'bp-spinner' : folding}`);
    // Names that are counted are told apart by their ends, so that is kept where there is no room.
    const tail = COUNTED.exec(words.title)?.[0] ?? '';
    this.head.text(tail === '' ? words.title : words.title.slice(0, -tail.length));
    this.tail.text(tail);
    const colour = around.colours.get(branch);
    const own = isTip && colour !== undefined && !isGone;
    this.title.attribute('style', own ? `color:var(--bp-c${colour})` : null);
    this.aside.text(words.aside);
    // The last word is kept where there is no room for all of them.
    const cut = words.here.lastIndexOf(' ') + 1;
    this.hereBefore.text(words.here.slice(0, cut));
    this.here.text(words.here.slice(cut));
    this.first.text(words.first);
    this.second.text(words.second);
  }

  /** Whether all that a checkpoint's row is written from is the same; most are, at most updates. */
  private isAsBefore({ key, placed, run, folded }: Shown, around: Around): boolean {
    const { subject, lane } = placed;
    const { chosen, stop, found, colours } = around;
    const branch = branchOf(subject);
    // A number that is none is never as before: what is no mere checkpoint is written anew.
    const made = [
      subject.kind === 'checkpoint' && run === 0 && folded !== true ? subject.checkpoint : NaN,
      folded,
      lane,
      chosen === key,
      stop === key,
      found === null ? null : found.has(key),
      colours.get(branch)
    ];
    const before = this.madeFrom;
    this.madeFrom = made;
    return made.length === before.length && made.every((part, at) => part === before[at]);
  }
}

/** A row as it is read out. */
function labelOf(shown: Shown, words: Words, branch: string): string {
  const { subject } = shown.placed;
  const parts =
    shown.run > 0
      ? [words.title, 'of branch ' + branch, words.aside, words.second]
      : subject.kind === 'tip' || foldedLine(shown) !== null
        ? ['branch ' + words.title, words.here, words.aside, words.first, words.second]
        : [
            words.title,
            words.aside,
            branch ? `on ${branch}` : '',
            words.first === say.NOTHING ? '' : `paused ${words.first}`,
            `${words.second} new`
          ];
  return parts.filter(Boolean).join(', ');
}
