/**
 * Opens a branch as a notebook: a copy of the document, on a kernel that continues the branch.
 * Closed, or with its kernel shut down, it gives the branch back.
 */
import {
  ILabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { COMMANDS, complain, tell } from './acting';
import type { Lineages } from './api';
import { askBranch } from './asking';
import { endOnceThere } from './ending';
import { type FollowedNotebook, IFollowing } from './follow';
import { lineageIcon } from './icons';
import { isOf, openable } from './openable';
import { savedFirst, saveInTurn } from './saving';
import { wayBack } from './words';

const KERNEL = 'branchpoint';
const FACTORY = 'Notebook';
/** Of a copy's metadata: what it is a copy of; mirrors NOTE in branchpoint_nbext/documents.py. */
const NOTE = 'branchpoint_copy';

/** Which branch is to be opened, of which session. */
export interface Wish {
  session: string;
  branch: string;
}

export const opening: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:opening',
  description: 'Opens a branch as a notebook of its own.',
  autoStart: true,
  requires: [IFollowing, INotebookTracker],
  optional: [ICommandPalette, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    following: IFollowing,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    labShell: ILabShell | null
  ) => {
    // Notebook 7 has another shell, with one notebook to a page: it opens the copy in another.
    const isPage = labShell === null;
    const opened = new Set<string>();
    app.commands.addCommand(COMMANDS.openBranch, {
      label: 'Open Branch as Notebook…',
      caption: 'Continue a branch in a copy of this notebook, on a kernel of its own',
      icon: lineageIcon,
      isEnabled: args => isWish(args) || choices(following).length > 0,
      execute: async args => {
        try {
          const wish = isWish(args) ? args : await askWish(following);
          return wish !== null && (await open(app, following, wish, isPage ? null : opened));
        } catch (error) {
          complain(error);
          return false;
        }
      }
    });
    palette?.addItem({ command: COMMANDS.openBranch, category: 'Branchpoint' });
    const end = (path: string): void => {
      const isOpen = (it: NotebookPanel): boolean =>
        !it.isDisposed && it.context.localPath === path;
      endOnceThere(app.serviceManager.sessions, path, () => notebooks.find(isOpen) !== undefined);
    };
    const close = (panel: NotebookPanel): void => {
      const isOpened = opened.delete(panel.context.localPath);
      const closing = new Closing(panel, following.server, isOpened);
      const leave = (): void => {
        if (closing.isDue) {
          end(panel.context.localPath);
        }
      };
      // A panel is told of a moment after it was made.
      if (panel.isDisposed) {
        leave();
      }
      panel.disposed.connect(leave);
    };
    notebooks.forEach(close);
    notebooks.widgetAdded.connect((_, panel) => close(panel));
    following.all.forEach(saveOursInTurn);
    following.added.connect((_, notebook) => saveOursInTurn(notebook));
  }
};

/** Other notebooks are saved as JupyterLab has it: what we offer is offered for those of ours. */
function saveOursInTurn(notebook: FollowedNotebook): void {
  const look = (): void => {
    if (notebook.kernel === 'ours') {
      saveInTurn(notebook.panel.context);
    }
  };
  notebook.changed.connect(look);
  look();
}

/**
 * Open the copy beside what is in front; the notebook that has the branch, if one has. Its path is
 * among those `opened` from then on; null where that is done in another page. False if the user
 * thought better of it.
 */
async function open(
  app: JupyterFrontEnd,
  following: IFollowing,
  wish: Wish,
  opened: Set<string> | null
): Promise<boolean> {
  const there = await openedAlready(following, app.serviceManager.contents, wish);
  const path = there ?? (await copyFor(wish, following));
  if (path === null) {
    return false;
  }
  const ref = app.shell.currentWidget?.id;
  if (!following.all.some(({ panel }) => panel.context.localPath === path)) {
    opened?.add(path);
  }
  await app.commands.execute('docmanager:open', {
    path,
    factory: FACTORY,
    kernel: { name: KERNEL },
    options: ref === undefined ? {} : { mode: 'split-right', ref }
  });
  const name = PathExt.basename(path);
  if (there !== null) {
    Notification.info(`${wish.branch} is open as ${name} already.`, { autoClose: 4000 });
  } else {
    tell(`${wish.branch} is open as ${name}. ${wayBack(opened === null)}`);
  }
  return true;
}

/** Where the new copy of the notebook is; null if the user thought better of it. */
async function copyFor(
  { session, branch }: Wish,
  { all, server }: IFollowing
): Promise<string | null> {
  const panel = all.find(({ lineage }) => lineage?.session === session)?.panel;
  // The copy is made of the file, and the file may have another name than the session knows.
  const context = panel?.context;
  if (context && !(await savedFirst(context, () => askUnsaved(branch, context.path)))) {
    return null;
  }
  return (await server.openBranch(session, branch, context?.localPath)).path;
}

async function askUnsaved(branch: string, path: string): Promise<boolean> {
  const { button } = await showDialog({
    title: `Open ${branch} without the latest edits?`,
    body:
      `${PathExt.basename(path)} is not saved. The new notebook is made from its file, ` +
      'which lacks what has changed since it was saved.',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Open without them' })],
    defaultButton: 0
  });
  return button.accept;
}

/** Where the notebook is that continues a branch; null if none does, or it cannot be reached. */
async function openedAlready(
  { all, server }: IFollowing,
  contents: Contents.IManager,
  { session, branch }: Wish
): Promise<string | null> {
  const { branches } = await server.view(session);
  const key = branches.find(({ facts }) => facts.name === branch)?.lent_to ?? '';
  if (key === '') {
    return null;
  }
  // One that was renamed since has the key that it was started by all the same.
  const here = all.find(({ view }) => view?.key === key);
  if (here) {
    return here.panel.context.path;
  }
  const path = (await server.sessions()).find(it => it.key === key)?.path ?? null;
  return path !== null && (await isThere(contents, path)) ? path : null;
}

async function isThere(contents: Contents.IManager, path: string): Promise<boolean> {
  try {
    await contents.get(path, { content: false });
    return true;
  } catch {
    return false;
  }
}

/**
 * Has the kernel of a notebook end when that is closed, for as long as it continues a branch. Others
 * end or run on, as the user has set it.
 */
class Closing {
  private asked: string | null = null;
  private lent = false;
  /** What somebody else has set, and whether it is set by this just now. */
  private wanted: boolean;
  private setting = false;

  /**
   * `isDue` tells whether its kernel is to end if it is closed as it is. That of a copy made just now
   * is before it can be asked about: it may not be there yet, and is not JupyterLab's to end then.
   */
  constructor(
    private readonly panel: NotebookPanel,
    private readonly server: Lineages,
    public isDue: boolean
  ) {
    const { sessionContext } = panel;
    this.wanted = sessionContext.kernelPreference.shutdownOnDispose ?? false;
    // JupyterLab sets it for all notebooks anew with each change of its settings.
    sessionContext.kernelPreferenceChanged.connect(this.onPreference, this);
    sessionContext.statusChanged.connect(this.look, this);
    this.look();
  }

  private onPreference(): void {
    if (!this.setting) {
      this.wanted = this.panel.sessionContext.kernelPreference.shutdownOnDispose ?? false;
      this.apply();
    }
  }

  private look(): void {
    const { kernelDisplayStatus, session } = this.panel.sessionContext;
    const kernel = session?.kernel?.id ?? null;
    // Lent again, if at all, by the time the kernel has its machine.
    if (kernel === null || kernel === this.asked || kernelDisplayStatus !== 'idle') {
      return;
    }
    const note: unknown = this.panel.model?.getMetadata(NOTE);
    if (isWish(note)) {
      this.asked = kernel;
      void this.decide(note, kernel);
    }
  }

  private async decide({ session }: Wish, kernel: string): Promise<void> {
    try {
      const [{ branches }, key] = await Promise.all([
        this.server.view(session),
        this.keyOf(kernel)
      ]);
      const path = this.panel.context.localPath;
      this.lent = branches.some(
        ({ lent_to }) => lent_to !== '' && (lent_to === key || isOf(lent_to, path))
      );
      // From now on JupyterLab ends it, or lets it run.
      this.isDue = false;
    } catch {
      // Whoever cannot be asked may be there again with the next kernel.
      this.asked = null;
      this.lent = false;
    }
    this.apply();
  }

  /** The key that the session of a kernel was started by, whatever its notebook is called now. */
  private async keyOf(kernel: string): Promise<string | null> {
    const own = await this.server.sessionOf({ kernel });
    return own === null ? null : (await this.server.view(own)).key;
  }

  private apply(): void {
    if (this.panel.isDisposed) {
      return;
    }
    const { sessionContext } = this.panel;
    const preference = sessionContext.kernelPreference;
    const ends = this.lent || this.wanted;
    if ((preference.shutdownOnDispose ?? false) !== ends) {
      this.setting = true;
      sessionContext.kernelPreference = { ...preference, shutdownOnDispose: ends };
      this.setting = false;
    }
  }
}

/** The branches of the notebook in front that can be opened. */
function choices(following: IFollowing): string[] {
  const view = following.current?.view ?? null;
  return view === null ? [] : openable(view);
}

async function askWish(following: IFollowing): Promise<Wish | null> {
  const session = following.current?.view?.session;
  const branch = await askBranch('Open as a notebook', 'Open', choices(following));
  return session === undefined || branch === null ? null : { session, branch };
}

function isWish(args: unknown): args is Wish {
  const { session, branch } = (args ?? {}) as Partial<Record<keyof Wish, unknown>>;
  return typeof session === 'string' && typeof branch === 'string';
}
