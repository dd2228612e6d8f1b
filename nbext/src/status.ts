/** The status bar: branch, machine memory, and whether it rests; a click opens the panel. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { COMMANDS } from './acting';
import { IFollowing } from './follow';
import { lineageIcon } from './icons';
import { el, Written } from './lineage/dom';
import { size } from './lineage/formats';
import { IPreferences } from './preferences';
import { currentBranch, sessionState, stateSentence } from './words';

export class StatusItem extends Widget {
  readonly activeChanged = new Signal<this, void>(this);
  isActive = false;
  private readonly branch = new Written(el('span'));
  private readonly memory = new Written(el('span', 'bp-Status-memory'));
  private readonly state = new Written(el('span', 'bp-Status-state'));
  private readonly button: Written;

  constructor(
    private readonly following: IFollowing,
    private readonly preferences: IPreferences,
    openPanel: () => void
  ) {
    super({ node: el('button', 'bp-Status') });
    this.button = new Written(this.node);
    this.node.append(lineageIcon.element({ tag: 'span', className: 'bp-Status-icon' }));
    this.node.append(this.branch.node, this.memory.node, this.state.node);
    this.node.addEventListener('click', openPanel);
    following.changed.connect(this.refresh, this);
    preferences.changed.connect(this.refresh, this);
    this.refresh();
  }

  private refresh(): void {
    const notebook = this.following.current;
    const view = notebook?.view ?? null;
    const branch = view && currentBranch(view);
    const isActive = notebook?.kernel === 'ours' && view !== null && branch !== null;
    if (isActive) {
      const { connected } = notebook;
      const own = branch.own_bytes;
      const showsMemory = this.preferences.memoryInStatusBar && own !== null;
      this.branch.text(branch.name);
      this.memory.text(showsMemory ? ` · ${size(own)}` : '');
      this.state.text(` · ${connected ? sessionState(view) : 'not connected'}`);
      const sentence = connected ? stateSentence(view) : 'Branchpoint: not connected';
      this.button.attribute('title', sentence);
      this.button.attribute('aria-label', `${sentence} Show the panel`);
    }
    if (isActive !== this.isActive) {
      this.isActive = isActive;
      this.activeChanged.emit();
    }
  }
}

export const status: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:status',
  description: 'Shows branch and machine memory in the status bar.',
  autoStart: true,
  requires: [IFollowing, IPreferences],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    following: IFollowing,
    preferences: IPreferences,
    bar: IStatusBar | null
  ) => {
    if (bar === null) {
      return;
    }
    const item = new StatusItem(following, preferences, () => {
      void app.commands.execute(COMMANDS.showPanel);
    });
    bar.registerStatusItem('branchpoint:status', {
      item,
      align: 'left',
      // Before JupyterLab's "Idle" and "Busy", which would push it about.
      rank: 0.5,
      isActive: () => item.isActive,
      activeStateChanged: item.activeChanged
    });
  }
};
