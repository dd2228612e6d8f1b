/** The session as tables: all that the tree shows, for who reads rather than looks. */

import type { BranchView, CheckpointView, LineageView, OperationView, Phases } from './facts';
import { el, Written } from './dom';
import * as say from './formats';

/** A column: its heading, and what it says of a row. */
type Column<Row> = [string, (row: Row, view: LineageView) => string];

const CHECKPOINTS: Column<CheckpointView>[] = [
  ['Checkpoint', it => say.titleOf(it)],
  ['Kind', ({ facts }) => say.kindNamed(facts.kind)],
  ['Branch', ({ facts }) => facts.branch],
  ['After', ({ facts }, view) => nameOf(facts.parent, view)],
  ['When', ({ facts }) => say.when(facts.created_at)],
  ['Paused', ({ facts }) => say.milliseconds(facts.paused_ms)],
  ['Took', ({ facts }) => say.milliseconds(facts.total_ms)],
  ['New memory', ({ facts }) => say.size(facts.memory_bytes)],
  ['Device', ({ facts }) => say.size(facts.device_bytes)],
  ['Disk', ({ facts }) => say.size(facts.disk_bytes)],
  ['Shared', ({ facts }) => say.size(facts.shared_bytes)],
  ['Pinned', ({ facts }) => (facts.pinned ? 'pinned' : '')],
  ['Note', ({ facts }) => facts.note],
  ['Cell', ({ cell, source }) => (cell === null ? '' : `In[${cell.count}] ${source}`)],
  ['Phases', ({ facts }) => phases(facts.phases_ms)]
];

const BRANCHES: Column<BranchView>[] = [
  ['Branch', ({ facts }) => facts.name],
  ['State', ({ facts }) => say.stateWords(facts.state)],
  ['Here', ({ facts }, view) => (facts.name === view.current ? 'you are here' : '')],
  ['Busy', ({ facts }) => (facts.busy ? 'busy' : '')],
  ['Stands on', ({ facts }) => facts.head_label],
  ['Own memory', ({ facts }) => say.sizeOrNothing(facts.own_bytes)],
  ['Shared', ({ facts }) => say.sizeOrNothing(facts.shared_bytes)],
  ['On disk', ({ facts }, view) => say.size(say.storedBytes(facts.name, view))],
  ['Lived', it => say.lived(it.lived_s)],
  ['Awake in', ({ facts }) => say.milliseconds(facts.awake_ms)],
  ['Requests', it => say.grouped(it.requests)],
  ['Sent', it => say.size(it.sent_bytes)],
  ['Received', it => say.size(it.received_bytes)],
  ['Tokens in', it => say.grouped(it.tokens_in)],
  ['Tokens out', it => say.grouped(it.tokens_out)],
  ['Money', (it, view) => say.money(it.micros, view.currency)],
  ['Lent to', it => it.lent_to],
  ['Waking', it => phases(it.phases_ms)]
];

const OPERATIONS: Column<OperationView>[] = [
  ['Operation', ({ op }) => op],
  ['Branch', ({ branch }) => branch],
  ['Checkpoint', ({ checkpoint }, view) => nameOf(checkpoint, view)],
  ['When', ({ at }) => say.when(at)],
  ['Took', ({ total_ms }) => say.milliseconds(total_ms)],
  ['Phases', ({ phases_ms }) => phases(phases_ms)]
];

const DONE = 'What was done, the newest first';
const NEWEST_DONE = `What was done: the newest ${say.MOST_OPERATIONS}, the newest first`;

export class Tables {
  readonly element = el('div', 'bp-tables');
  private readonly branches = new Table('Branches, in order of making', BRANCHES);
  private readonly checkpoints = new Table('Checkpoints, oldest first', CHECKPOINTS);
  private readonly operations = new Table(DONE, OPERATIONS);

  constructor() {
    this.element.tabIndex = 0;
    this.element.setAttribute('role', 'region');
    this.element.setAttribute('aria-label', 'The session as tables');
    const all = [this.branches, this.checkpoints, this.operations];
    this.element.append(...all.map(({ element }) => element));
  }

  show(view: LineageView): void {
    this.branches.show(view.branches, view);
    this.checkpoints.show(view.checkpoints, view);
    this.operations.show(view.operations, view);
    this.operations.caption.text(say.areNewest(view.operations) ? NEWEST_DONE : DONE);
  }
}

class Table<Row> {
  readonly element = el('table', 'bp-table');
  readonly caption: Written;
  private readonly body = el('tbody');
  private readonly rows: Written[][] = [];

  constructor(
    caption: string,
    private readonly columns: readonly Column<Row>[]
  ) {
    const head = el('tr');
    for (const [name] of columns) {
      const cell = el('th', '', name);
      cell.scope = 'col';
      head.append(cell);
    }
    const top = el('thead');
    top.append(head);
    this.caption = new Written(el('caption', '', caption));
    this.element.append(this.caption.node, top, this.body);
  }

  show(rows: readonly Row[], view: LineageView): void {
    rows.forEach((row, number) => {
      const cells = this.rows[number] ?? this.add();
      this.columns.forEach(([, value], column) => cells[column]?.text(value(row, view)));
    });
    while (this.rows.length > rows.length) {
      this.rows.pop();
      this.body.lastElementChild?.remove();
    }
  }

  private add(): Written[] {
    const line = el('tr');
    const cells = this.columns.map((_, column) => {
      const cell = el(column === 0 ? 'th' : 'td');
      if (cell instanceof HTMLTableCellElement && column === 0) {
        cell.scope = 'row';
      }
      line.append(cell);
      return new Written(cell);
    });
    this.body.append(line);
    this.rows.push(cells);
    return cells;
  }
}

const labels = new WeakMap<LineageView, Map<string, string>>();

function nameOf(id: string | null, view: LineageView): string {
  let known = labels.get(view);
  if (known === undefined) {
    known = new Map(view.checkpoints.map(each => [each.facts.id, say.titleOf(each)]));
    labels.set(view, known);
  }
  return id === null ? '' : (known.get(id) ?? '');
}

function phases(measured: Phases): string {
  return say
    .phasesOf(measured)
    .map(([name, ms]) => `${say.phaseWords(name)} ${say.duration(ms)}`)
    .join(', ');
}
