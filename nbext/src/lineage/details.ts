/** All that is known of what is selected: figures, phases, what it was saved after. */

import type { BranchView, CheckpointView, LineageView, Phases } from './facts';
import { colourNumbers } from './colours';
import { el, Written } from './dom';
import * as say from './formats';
import type { Subject } from './layout';

type Fact = [string, string];

interface Shape {
  title: string;
  kind: string;
  colour: number | undefined;
  parts: Part[];
}

type Part =
  | { facts: Fact[]; named: string }
  | { phases: Phases; named: string }
  | { words: string; className: string; named: string };

/** What is shown of a subject, as plain facts. Pure. */
export function detailsOf(subject: Subject, view: LineageView): Shape {
  const numbers = colourNumbers(view.branches);
  if (subject.kind === 'tip') {
    const { facts } = subject.branch;
    const here = facts.name === view.current ? ', this notebook' : '';
    const kind = `branch, ${say.stateWords(facts.state)}${facts.busy ? ', busy' : ''}${here}`;
    const parts = branchParts(subject.branch, view);
    return { title: facts.name, kind, colour: numbers.get(facts.name), parts };
  }
  const { checkpoint } = subject;
  const of = view.branches.find(({ facts }) => facts.name === checkpoint.facts.branch);
  const parts = checkpointParts(checkpoint);
  if (of !== undefined) {
    parts.push(...branchParts(of, view).map(part => inBranch(part, of.facts.name)));
  }
  const on = checkpoint.facts.branch ? ` \u00b7 ${checkpoint.facts.branch}` : '';
  return {
    title: say.titleOf(checkpoint),
    kind: `${say.kindNamed(checkpoint.facts.kind)}${checkpoint.facts.pinned ? ', pinned' : ''}${on}`,
    colour: numbers.get(checkpoint.facts.branch),
    parts
  };
}

function inBranch(part: Part, name: string): Part {
  return { ...part, named: `Branch ${name}: ${part.named.toLowerCase()}` };
}

function checkpointParts({ facts, cell, source, count }: CheckpointView): Part[] {
  const parts: Part[] = [];
  if (facts.note) {
    parts.push({ words: facts.note, className: 'bp-note', named: 'Note' });
  }
  parts.push({
    named: 'Cost',
    facts: [
      ['paused', say.milliseconds(facts.paused_ms)],
      ['stopped', say.milliseconds(facts.stopped_ms)],
      ['took', say.milliseconds(facts.total_ms)],
      ['new memory', say.size(facts.memory_bytes)],
      ['shared', say.size(facts.shared_bytes)],
      ['disk', say.size(facts.disk_bytes)],
      ['device', say.size(facts.device_bytes)],
      ['when', say.when(facts.created_at)],
      ['cells run', say.grouped(count)]
    ]
  });
  parts.push({ named: 'Phases', phases: facts.phases_ms });
  if (cell !== null) {
    const words = source || 'no source kept';
    parts.push({ words, className: 'bp-source', named: `In[${cell.count}]` });
  }
  return parts;
}

function branchParts(branch: BranchView, view: LineageView): Part[] {
  const { facts } = branch;
  const parts: Part[] = [
    {
      named: 'Cost',
      facts: [
        ['own memory', say.sizeOrNothing(facts.own_bytes)],
        ['shared', say.sizeOrNothing(facts.shared_bytes)],
        ['on disk', say.size(say.storedBytes(facts.name, view))],
        ['lived', say.lived(branch.lived_s)],
        ['awake in', say.milliseconds(facts.awake_ms)],
        ['requests', say.grouped(branch.requests)],
        ['sent', say.size(branch.sent_bytes)],
        ['received', say.size(branch.received_bytes)],
        ['tokens in', say.grouped(branch.tokens_in)],
        ['tokens out', say.grouped(branch.tokens_out)],
        ['money', say.money(branch.micros, view.currency)],
        ['stands on', facts.head_label],
        ['since', say.when(facts.created_at)]
      ]
    },
    { named: 'Waking', phases: branch.phases_ms }
  ];
  if (branch.lent_to) {
    parts.unshift({ words: `open as ${branch.lent_to}`, className: 'bp-note', named: 'Lent' });
  }
  return parts;
}

/** The details in the page: rebuilt for another subject, written over for the same. */
export class Details {
  readonly head = el('div', 'bp-details');
  readonly parts = el('div', 'bp-parts');
  private readonly title = new Written(el('h3', 'bp-details-title'));
  private readonly kind = new Written(el('p', 'bp-details-kind'));
  private written: Written[] = [];
  private form = '';

  constructor() {
    this.head.append(this.title.node, this.kind.node);
  }

  show(subject: Subject, view: LineageView): void {
    const shape = detailsOf(subject, view);
    this.title.text(shape.title);
    const colour = shape.colour === undefined ? 'bp-ink' : `bp-c${shape.colour}`;
    this.title.attribute('style', `border-color:var(--${colour})`);
    this.kind.text(shape.kind);
    const form = shape.parts.map(formOf).join('\n');
    if (form !== this.form) {
      this.form = form;
      this.written = [];
      this.parts.replaceChildren(...shape.parts.map(part => this.make(part)));
    }
    const values = shape.parts.flatMap(valuesOf);
    values.forEach((value, number) => this.written[number]?.text(value));
  }

  private make(part: Part): HTMLElement {
    const section = el('section', 'bp-part');
    section.append(el('h4', 'bp-part-title', part.named));
    if ('facts' in part) {
      section.append(this.list(part.facts));
    } else if ('phases' in part) {
      section.append(bars(part.phases));
    } else {
      section.append(this.cell('p', part.className));
    }
    return section;
  }

  private list(facts: readonly Fact[]): HTMLElement {
    const list = el('dl', 'bp-facts');
    for (const [name] of facts) {
      list.append(el('dt', '', name), this.cell('dd', ''));
    }
    return list;
  }

  private cell(tag: 'p' | 'dd', className: string): HTMLElement {
    const node = el(tag, className);
    this.written.push(new Written(node));
    return node;
  }
}

/** What decides whether the elements that are there will do; phases change with their subject. */
function formOf(part: Part): string {
  if ('facts' in part) {
    return `${part.named} ${part.facts.map(([name]) => name).join()}`;
  }
  return 'phases' in part ? part.named + JSON.stringify(part.phases) : part.named + part.className;
}

function valuesOf(part: Part): string[] {
  if ('facts' in part) {
    return part.facts.map(([, value]) => value);
  }
  return 'phases' in part ? [] : [part.words];
}

/** A bar per phase, as long as its share of the longest. */
function bars(phases: Phases): HTMLElement {
  const listed = say.phasesOf(phases);
  if (listed.length === 0) {
    return el('p', 'bp-hint', 'not measured');
  }
  const most = Math.max(...listed.map(([, ms]) => ms));
  const list = el('ul', 'bp-phases');
  for (const [name, ms] of listed) {
    const line = el('li');
    const bar = el('span', 'bp-bar');
    const filled = el('span');
    filled.style.width = `${((100 * ms) / most).toFixed(1)}%`;
    bar.append(filled);
    bar.setAttribute('aria-hidden', 'true');
    const digits = ms < 10 ? 1 : 0;
    const time = el('span', 'bp-phase-ms', `${ms.toFixed(digits)} ms`);
    line.append(el('span', 'bp-phase-name', say.phaseWords(name)), bar, time);
    list.append(line);
  }
  return list;
}
