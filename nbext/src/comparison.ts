/** What a comparison looks like: the cells of both branches, and below them what their machines tell. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { CellsTable, type Compared, type Side } from './comparing_table';
import { refusalOf } from './lineage/doing';
import { button, el } from './lineage/dom';
import { rendered } from './lineage/told';
import { ShownOutputs } from './shown_outputs';

/** Two branches, and whom to ask about them. */
export interface Comparable {
  readonly names: Record<Side, string>;
  /** Something about the session has changed, these branches perhaps. */
  readonly changed: ISignal<unknown, void>;
  /** Another whenever a comparison made before is out of date; empty while nobody knows. */
  readonly state: string;
  side(side: Side): Promise<{ compared: Compared; panel: NotebookPanel | null }>;
  /** How the machines differ, as HTML of the kernel's making. */
  diff(): Promise<string>;
  dispose(): void;
}

type Found = Awaited<ReturnType<Comparable['side']>>;

export class Comparison extends Widget {
  private readonly status = el('p', 'bp-Compare-status');
  private readonly stale = el('p', 'bp-Compare-stale');
  private readonly cells = el('div', 'bp-Compare-cells');
  private readonly machines = el('div', 'bp-Compare-machines');
  private table: CellsTable | null = null;
  private outputs: ShownOutputs | null = null;
  private found: readonly [Found, Found] | null = null;
  private shownState = '';
  /** Answers to an earlier asking come too late. */
  private asked = 0;

  constructor(private readonly branches: Comparable) {
    super();
    this.addClass('bp-Compare');
    this.node.tabIndex = -1;
    const { left, right } = branches.names;
    this.status.setAttribute('role', 'status');
    this.machines.setAttribute('aria-live', 'polite');
    this.stale.hidden = true;
    this.stale.append('The session has gone on since. ', button('Compare again', 'refresh'));
    this.node.append(
      el('h2', '', `Branches ${left} and ${right}`),
      this.bar(),
      this.status,
      this.stale,
      el('h3', '', 'Cells'),
      this.cells,
      el('h3', '', `Files, variables and packages, from ${left} to ${right}`),
      this.machines
    );
    this.node.addEventListener('click', this);
    this.node.addEventListener('keydown', this);
    branches.changed.connect(this.noticeAge, this);
  }

  /** Compare them as they are now. */
  async refresh(): Promise<void> {
    this.asked += 1;
    const turn = this.asked;
    this.status.textContent = 'Reading the cells of both…';
    this.status.removeAttribute('data-failed');
    this.stale.hidden = true;
    // Before the cells: what comes while they are read makes them old.
    const { state } = this.branches;
    try {
      const found = [await this.branches.side('left'), await this.branches.side('right')] as const;
      if (turn === this.asked && !this.isDisposed) {
        this.found = found;
        this.shownState = state;
        this.status.textContent = '';
        this.draw();
        await this.tellMachines(turn);
      }
    } catch (error) {
      if (turn === this.asked && !this.isDisposed) {
        const { message, hint } = refusalOf(error);
        this.status.textContent = [message, hint].filter(Boolean).join(' ');
        this.status.dataset['failed'] = '';
      }
    }
  }

  handleEvent(event: Event): void {
    if (event instanceof KeyboardEvent) {
      this.onKey(event);
    } else if (event.target instanceof HTMLElement) {
      this.onClick(event.target.dataset['do'] ?? '');
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.branches.changed.disconnect(this.noticeAge, this);
      this.branches.dispose();
      super.dispose();
    }
  }

  protected override onAfterAttach(_message: Message): void {
    if (this.found === null) {
      void this.refresh();
    } else {
      this.draw();
    }
  }

  protected override onBeforeDetach(_message: Message): void {
    this.outputs?.clear();
  }

  protected override onActivateRequest(_message: Message): void {
    this.node.focus();
  }

  private bar(): HTMLElement {
    const bar = el('div', 'bp-Compare-bar');
    const next = button('Next difference', 'next');
    next.title = 'Go to the next difference (N)';
    const previous = button('Previous difference', 'previous');
    previous.title = 'Go to the difference before (P)';
    const only = el('label');
    const box = el('input');
    box.type = 'checkbox';
    box.dataset['do'] = 'only';
    only.append(box, ' Only what differs');
    bar.append(next, previous, only, button('Compare again', 'refresh'));
    return bar;
  }

  private onClick(does: string): void {
    if (does === 'refresh') {
      void this.refresh();
    } else if (does === 'next' || does === 'previous') {
      this.step(does === 'next' ? 1 : -1);
    } else if (does === 'only') {
      this.cells.classList.toggle('bp-mod-only');
    }
  }

  private onKey(event: KeyboardEvent): void {
    const by = { n: 1, p: -1 }[event.key] as 1 | -1 | undefined;
    const isTyped = event.ctrlKey || event.altKey || event.metaKey;
    // What is typed into a widget among the outputs is that widget's.
    const isOurs = !(event.target as HTMLElement).closest('.bp-Compare-outputs');
    if (by !== undefined && !isTyped && isOurs) {
      event.preventDefault();
      this.step(by);
    }
  }

  private step(by: 1 | -1): void {
    const isThere = this.table?.step(by) ?? false;
    this.status.textContent = isThere || this.table === null ? '' : 'No cell differs.';
  }

  private draw(): void {
    if (this.found === null || !this.isAttached) {
      return;
    }
    const [left, right] = this.found;
    this.outputs?.clear();
    this.outputs = new ShownOutputs({ left: left.panel, right: right.panel });
    this.table = new CellsTable(left.compared, right.compared, this.outputs);
    this.cells.replaceChildren(this.table.node);
    this.outputs.attach();
  }

  /** To look into machines takes a while, and those that rest are woken for it. */
  private async tellMachines(turn: number): Promise<void> {
    this.machines.textContent = 'Looking into both machines…';
    const shown = document.createDocumentFragment();
    try {
      shown.append(rendered(await this.branches.diff()));
    } catch (error) {
      const { message, hint } = refusalOf(error);
      shown.append(el('p', '', `How they differ cannot be told: ${message} ${hint}`.trim()));
    }
    if (turn === this.asked && !this.isDisposed) {
      this.machines.replaceChildren(shown);
    }
  }

  private noticeAge(): void {
    if (this.shownState === '') {
      // The first view may come after the first comparison.
      this.shownState = this.found === null ? '' : this.branches.state;
    } else {
      this.stale.hidden = this.branches.state === this.shownState;
    }
  }
}
