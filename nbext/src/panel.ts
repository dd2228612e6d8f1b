/** The panel in the side bar: the tree of the notebook in front, and all other sessions. */
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { Contents } from '@jupyterlab/services';
import type { CommandRegistry } from '@lumino/commands';
import { Poll } from '@lumino/polling';
import { Widget } from '@lumino/widgets';
import { COMMANDS, PageLineage } from './acting';
import type { ServerLineage, SessionOverview } from './api';
import { ClosedSessions, notShown, placeOf } from './closed_sessions';
import { type FollowedNotebook, IFollowing } from './follow';
import { lineageIcon } from './icons';
import type { Zoom } from './lineage/controls';
import { button, el, Written } from './lineage/dom';
import type { LineageService, LineageView } from './lineage/facts';
import { LineageTree } from './lineage/tree';
import { IPreferences } from './preferences';
import { currentBranch, memoryWords, sessionState, stateSentence } from './words';

/** In milliseconds: how often the list is looked at while it is seen, and while that fails. */
const LIST_EVERY = 1000;
const LIST_LATEST = 5000;

/** A session from the list that is looked at; `path` is its notebook's, if that is still there. */
interface Chosen {
  session: SessionOverview;
  lineage: ServerLineage;
  path: string | null;
}

export class LineagePanel extends Widget {
  private readonly head = el('header', 'bp-Panel-head');
  private readonly branch = new Written(el('strong', 'bp-Panel-branch'));
  private readonly memory = new Written(el('span', 'bp-Panel-memory'));
  private readonly state = new Written(el('span', 'bp-Panel-state'));
  private readonly words = new Written(el('span'));
  private readonly notice = el('p', 'bp-Panel-words');
  private readonly links = [new ShownLink(), new ShownLink()];
  private readonly host = el('div', 'bp-Panel-tree');
  private readonly closed: ClosedSessions;
  private readonly poll: Poll<void>;
  private sessions: readonly SessionOverview[] = [];
  /** The lineage whose tree is drawn, and the tree. */
  private drawn: { lineage: ServerLineage; tree: LineageTree; drop: () => void } | null = null;
  /** What was chosen from the list; nothing of a notebook in front is shown then. */
  private chosen: Chosen | null = null;
  private front: FollowedNotebook | null = null;
  private situation = '';
  private rowSize: Zoom;

  constructor(
    private readonly following: IFollowing,
    private readonly preferences: IPreferences,
    private readonly commands: CommandRegistry,
    private readonly contents: Contents.IManager
  ) {
    super();
    this.rowSize = preferences.rowSize;
    this.id = 'branchpoint-panel';
    this.addClass('bp-Panel');
    this.title.icon = lineageIcon;
    this.title.caption = 'Branchpoint: lineage of the notebook';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Branchpoint lineage');
    this.head.append(this.branch.node, this.memory.node, this.state.node);
    this.notice.setAttribute('role', 'status');
    this.notice.append(this.words.node);
    this.links.forEach(({ node }) => this.notice.append(' ', node));
    this.closed = new ClosedSessions({ choose: session => void this.choose(session) });
    this.node.append(this.head, this.notice, this.host, this.closed.node);
    this.poll = new Poll({
      auto: false,
      name: 'branchpoint:sessions',
      factory: () => this.list(),
      frequency: { interval: LIST_EVERY, backoff: true, max: LIST_LATEST },
      standby: () => (this.isVisible ? 'when-hidden' : true)
    });
    following.changed.connect(this.refresh, this);
    preferences.changed.connect(this.onPreferences, this);
    void this.poll.start();
    this.refresh();
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.poll.dispose();
    this.undraw();
    this.chosen?.lineage.dispose();
    this.following.changed.disconnect(this.refresh, this);
    this.preferences.changed.disconnect(this.onPreferences, this);
    super.dispose();
  }

  protected override onAfterShow(): void {
    void this.poll.refresh();
  }

  private onPreferences(): void {
    const { rowSize } = this.preferences;
    // Any setting may have changed; a size that was chosen in the tree stays for all others.
    if (this.drawn !== null && rowSize !== this.rowSize) {
      this.drawn.tree.zoom = rowSize;
      this.refresh();
    }
    this.rowSize = rowSize;
  }

  private async choose(session: SessionOverview): Promise<void> {
    this.leaveChosen();
    const lineage = this.following.server.open(session.id);
    const chosen: Chosen = { session, lineage, path: null };
    this.chosen = chosen;
    this.refresh();
    this.node.scrollTop = 0;
    const { path } = session;
    if (path !== null && (await this.isThere(path)) && chosen === this.chosen) {
      chosen.path = path;
      this.refresh();
    }
  }

  private async isThere(path: string): Promise<boolean> {
    try {
      await this.contents.get(path, { content: false });
      return true;
    } catch {
      return false;
    }
  }

  private leaveChosen(): void {
    const { chosen } = this;
    this.chosen = null;
    if (chosen !== null) {
      if (this.drawn?.lineage === chosen.lineage) {
        this.undraw();
      }
      chosen.lineage.dispose();
    }
  }

  private refresh(): void {
    const front = this.following.current;
    const owner = `${front?.lineage?.session} ${front?.view?.owner}`;
    const situation = `${front?.kernel} ${owner} ${front?.connected}`;
    if (situation !== this.situation) {
      // One that was closed or opened is on the list no longer, or now; or the server is back.
      this.situation = situation;
      void this.poll.refresh();
    }
    if (front !== this.front) {
      // Whoever turns to another notebook wants to see that one's.
      this.front = front;
      this.leaveChosen();
    }
    if (this.chosen?.lineage.gone) {
      // It was removed: there is nothing left to look at.
      this.leaveChosen();
      void this.poll.refresh();
    }
    if (this.chosen !== null) {
      this.showChosen(this.chosen);
      this.draw(this.chosen.lineage);
    } else {
      this.showFront(front);
      this.draw(front?.lineage ?? null);
    }
    this.showList();
  }

  private showFront(front: FollowedNotebook | null): void {
    const view = front?.view ?? null;
    const changeKernel = (): void => void this.commands.execute('notebook:change-kernel');
    this.showHead(view, front?.connected ?? true);
    if (front === null) {
      this.say('No notebook is open.');
    } else if (!front.connected) {
      this.say('Not connected to the server. Trying again…');
    } else if (front.kernel === 'other') {
      const name = front.panel.sessionContext.kernelDisplayName;
      this.say(`This notebook runs on ${name}, outside a machine.`, {
        words: 'Change kernel…',
        follow: changeKernel
      });
    } else if (front.kernel === 'none' && front.starting) {
      // Nothing tells that it failed to start, so there has to be a way to have another.
      this.say('Its kernel is being started…', {
        words: 'Choose another kernel…',
        follow: changeKernel
      });
    } else if (front.kernel === 'none') {
      const words =
        front.lineage === null
          ? 'This notebook has no kernel.'
          : 'It has no running kernel: this is its lineage on record.';
      this.say(words, { words: 'Choose a kernel…', follow: changeKernel });
    } else if (view === null) {
      this.say('The machine of this notebook is being made ready…');
    } else {
      this.say('');
    }
  }

  private showChosen({ session, lineage, path }: Chosen): void {
    const back = (): void => {
      this.leaveChosen();
      this.refresh();
    };
    const open = (): void => void this.commands.execute('docmanager:open', { path });
    const rests = lineage.view ? lineage.view.owner === null : !session.open;
    this.showHead(lineage.view, lineage.connected);
    this.say(
      `The session of ${placeOf(session).name}, ${rests ? 'on record' : 'which is running'}.`,
      path === null ? null : { words: 'Open its notebook', follow: open },
      { words: 'Back to the notebook in front', follow: back }
    );
  }

  private showHead(view: LineageView | null, connected: boolean): void {
    const branch = view && currentBranch(view);
    this.head.hidden = view === null;
    this.branch.text(branch?.name ?? '');
    this.memory.text(branch ? memoryWords(branch) : '');
    this.state.text(view === null ? '' : connected ? sessionState(view) : 'not connected');
    const rests = view?.owner === null ? 'closed' : (branch?.state ?? '');
    this.state.attribute('data-state', connected ? rests : 'unconnected');
    this.head.title = view === null ? '' : stateSentence(view);
  }

  private say(words: string, ...links: (Link | null)[]): void {
    this.words.text(words);
    this.notice.hidden = words === '';
    this.links.forEach((shown, at) => shown.show(links[at] ?? null));
  }

  private draw(lineage: ServerLineage | null): void {
    if (this.drawn?.lineage !== lineage) {
      this.undraw();
      if (lineage !== null) {
        const tree = new LineageTree(this.host, this.serviceOf(lineage));
        tree.zoom = this.preferences.rowSize;
        const onChange = (): void => this.refresh();
        // A notebook in front tells by itself.
        if (lineage === this.chosen?.lineage) {
          lineage.changed.connect(onChange);
        }
        this.drawn = { lineage, tree, drop: () => lineage.changed.disconnect(onChange) };
      }
    }
    const view = lineage?.view ?? null;
    this.host.hidden = view === null;
    if (this.drawn !== null && view !== null) {
      this.drawn.tree.show(view);
    }
  }

  /** What was chosen from the list has no notebook in this page that could be changed. */
  private serviceOf(lineage: ServerLineage): LineageService {
    return lineage === this.chosen?.lineage
      ? lineage
      : new PageLineage(lineage, this.commands, () => this.preferences.offerToRestoreText);
  }

  private undraw(): void {
    this.drawn?.drop();
    this.drawn?.tree.dispose();
    this.drawn = null;
    this.host.replaceChildren();
  }

  private async list(): Promise<void> {
    this.sessions = await this.following.server.sessions();
    this.showList();
  }

  private showList(): void {
    const listed = notShown(this.sessions, this.following.all);
    this.closed.show(listed, this.chosen?.session.id ?? null);
  }
}

interface Link {
  words: string;
  follow: () => void;
}

/** A button that reads as a link; the same element whatever it is for, so that focus stays. */
class ShownLink {
  readonly node = button('', '', 'bp-Panel-link');
  private readonly words = new Written(this.node);
  private follow: (() => void) | undefined;

  constructor() {
    this.node.addEventListener('click', () => this.follow?.());
  }

  show(link: Link | null): void {
    this.node.hidden = link === null;
    this.words.text(link?.words ?? '');
    this.follow = link?.follow;
  }
}

export const paneling: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:panel',
  description: 'Shows the lineage of the notebook in front, in the side bar.',
  autoStart: true,
  requires: [IFollowing, IPreferences],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    following: IFollowing,
    preferences: IPreferences,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ) => {
    const { commands } = app;
    const panel = new LineagePanel(following, preferences, commands, app.serviceManager.contents);
    const place = (): void => {
      app.shell.add(panel, preferences.panelSide, { rank: 850, type: 'Branchpoint' });
    };
    place();
    restorer?.add(panel, panel.id);
    let side = preferences.panelSide;
    const placeAnew = (): void => {
      const other = preferences.panelSide === 'left' ? 'right' : 'left';
      if (preferences.panelSide !== side || panel.node.closest(`#jp-${other}-stack`) !== null) {
        side = preferences.panelSide;
        const wasSeen = panel.isVisible;
        place();
        if (wasSeen) {
          app.shell.activateById(panel.id);
        }
      }
    };
    preferences.changed.connect(placeAnew);
    // A workspace puts it where it was when that was stored.
    void app.restored.then(placeAnew);
    commands.addCommand(COMMANDS.showPanel, {
      label: 'Show the Lineage of the Notebook',
      caption: 'Open the panel of branchpoint',
      icon: lineageIcon,
      execute: () => app.shell.activateById(panel.id)
    });
    palette?.addItem({ command: COMMANDS.showPanel, category: 'Branchpoint' });
  }
};
