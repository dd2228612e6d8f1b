/**
 * Dims the cells that show what ran on a future that was left, or came to no end; the document is
 * not touched.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { type Cell, CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { type PanelLayout, Widget } from '@lumino/widgets';
import { type FollowedNotebook, IFollowing } from './follow';
import { leftBehind } from './futures';
import { el } from './lineage/dom';
import { IPreferences } from './preferences';

const LEFT = 'bp-mod-left';

/** The cells of one notebook: looked at again whenever the view, a count or the list changes. */
export class DimmedCells implements IDisposable {
  isDisposed = false;
  private readonly notes = new Map<Cell, Widget>();
  private readonly watched = new WeakSet<CodeCell>();
  private isDue = false;

  constructor(
    private readonly notebook: FollowedNotebook,
    private readonly preferences: IPreferences
  ) {
    this.panel.content.modelContentChanged.connect(this.later, this);
    this.panel.content.modelChanged.connect(this.later, this);
    notebook.changed.connect(this.later, this);
    preferences.changed.connect(this.later, this);
    this.panel.disposed.connect(this.dispose, this);
    this.later();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.preferences.changed.disconnect(this.later, this);
    this.notebook.changed.disconnect(this.later, this);
    this.notes.clear();
  }

  private get panel(): NotebookPanel {
    return this.notebook.panel;
  }

  /** Once for all that changes in one go: a run changes a cell many times. */
  private later(): void {
    if (this.isDue) {
      return;
    }
    this.isDue = true;
    queueMicrotask(() => {
      this.isDue = false;
      if (!this.isDisposed && !this.panel.isDisposed) {
        this.refresh();
      }
    });
  }

  private refresh(): void {
    const cells = this.panel.content.widgets.filter(cell => cell instanceof CodeCell);
    for (const cell of cells) {
      this.watch(cell);
    }
    const shown = cells.map(({ model }) => ({
      id: model.id,
      count: model.executionCount,
      runs: model.executionState === 'running'
    }));
    const { view } = this.notebook;
    const words =
      view !== null && this.preferences.dimLeftCells
        ? leftBehind(view, shown)
        : new Map<string, string>();
    for (const cell of cells) {
      this.mark(cell, words.get(cell.model.id) ?? '');
    }
  }

  private watch(cell: CodeCell): void {
    if (this.watched.has(cell)) {
      return;
    }
    this.watched.add(cell);
    cell.model.stateChanged.connect((_, { name }) => {
      if (name === 'executionCount' || name === 'executionState') {
        this.later();
      }
    });
    cell.disposed.connect(() => this.notes.delete(cell));
  }

  /** Dim it and say why; without words it is as any other. */
  private mark(cell: CodeCell, words: string): void {
    cell.toggleClass(LEFT, words !== '');
    const note = this.notes.get(cell);
    if (note !== undefined && note.node.textContent !== words) {
      if (words !== '') {
        note.node.textContent = words;
        return;
      }
      this.notes.delete(cell);
      note.dispose();
    }
    if (words !== '' && note === undefined) {
      const made = new Widget({ node: el('div', 'bp-LeftNote', words) });
      made.node.setAttribute('role', 'note');
      this.notes.set(cell, made);
      void append(cell, made);
    }
  }
}

/** A cell out of sight gets its parts when it is scrolled to, and puts them before the last one. */
async function append(cell: CodeCell, note: Widget): Promise<void> {
  await cell.ready;
  if (!note.isDisposed && !cell.isDisposed) {
    (cell.layout as PanelLayout).addWidget(note);
  }
}

export const dimming: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:dimming',
  description: 'Dims cells that ran on a future that was left.',
  autoStart: true,
  requires: [IFollowing, IPreferences],
  activate: (_app: JupyterFrontEnd, following: IFollowing, preferences: IPreferences) => {
    const dim = (notebook: FollowedNotebook): DimmedCells => new DimmedCells(notebook, preferences);
    following.all.forEach(dim);
    following.added.connect((_, notebook) => void dim(notebook));
  }
};
