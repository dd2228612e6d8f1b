/** The commands of the palette, the toolbar and the shortcuts; each is about the notebook in front. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { COMMANDS, complain, PageLineage } from './acting';
import type { ServerLineage } from './api';
import { askBranch, askCheckpoint, askFork, askRollback } from './asking';
import { type FollowedNotebook, IFollowing } from './follow';
import { forkIcon, checkpointIcon, lineageIcon, rollbackIcon } from './icons';
import type { BranchFacts, CheckpointView, LineageView } from './lineage/facts';
import { IPreferences } from './preferences';
import { Restorer } from './restoring';
import { notebookOf } from './whose_document';
import { currentBranch } from './words';

type Args = ReadonlyPartialJSONObject;

/** A notebook in front whose session can be steered, and what it is on. */
interface Front {
  notebook: FollowedNotebook;
  page: PageLineage;
  view: LineageView;
  branch: BranchFacts;
}

const CATEGORY = 'Branchpoint';

/** Branches that a notebook can go on with. */
function others({ branches, current }: LineageView): string[] {
  return branches
    .map(({ facts }) => facts)
    .filter(({ name, state }) => name !== current && !['dropped', 'lent'].includes(state))
    .map(({ name }) => name);
}

export const commanding: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:commands',
  description: 'Checkpoint, fork and roll back from the palette and by keys.',
  autoStart: true,
  requires: [IFollowing, IPreferences],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    following: IFollowing,
    preferences: IPreferences,
    palette: ICommandPalette | null
  ) => {
    const { commands } = app;
    const restorer = new Restorer(app);

    const offerText = (): boolean => preferences.offerToRestoreText;
    const front = (): Front | null => {
      const notebook = following.current;
      const view = notebook?.view ?? null;
      const branch = view && currentBranch(view);
      if (!notebook?.lineage || !notebook.steerable || !view || !branch) {
        return null;
      }
      const page = new PageLineage(notebook.lineage, commands, offerText);
      return { notebook, page, view, branch };
    };

    const add = (
      id: string,
      label: string,
      caption: string,
      work: (front: Front, args: Args) => Promise<void>,
      can: (front: Front) => boolean = () => true,
      icon = lineageIcon
    ): void => {
      commands.addCommand(id, {
        label,
        caption,
        icon,
        isEnabled: () => {
          const now = front();
          return now !== null && can(now);
        },
        execute: async args => {
          const now = front();
          try {
            await (now && work(now, args));
          } catch (error) {
            complain(error);
          }
        }
      });
      palette?.addItem({ command: id, category: CATEGORY });
    };

    add(
      COMMANDS.checkpoint,
      'Checkpoint',
      'Save the machine of this notebook as it is now',
      ({ page }, { label }) =>
        page.actAloud({ op: 'checkpoint', ...(typeof label === 'string' ? { label } : {}) }),
      () => true,
      checkpointIcon
    );
    add(
      COMMANDS.fork,
      'Fork…',
      'Make branches that carry on from this very moment',
      async ({ page, branch }) => {
        const action = await askFork(branch.name);
        if (action !== null) {
          await page.actAloud(action);
        }
      },
      () => true,
      forkIcon
    );
    add(
      COMMANDS.rollback,
      'Roll Back…',
      'Take this notebook back to its last checkpoint',
      async ({ page, branch, view }, { target }) => {
        const wanted = typeof target === 'string' ? target : branch.head;
        const checkpoint = found(view, wanted);
        const wish = checkpoint && (await askRollback(page, branch.name, checkpoint));
        if (checkpoint && wish) {
          const { id } = checkpoint.facts;
          await page.actAloud({ op: 'rollback', target: id, branch: branch.name, ...wish });
        }
      },
      ({ view, branch }) => found(view, branch.head) !== null,
      rollbackIcon
    );
    add(
      COMMANDS.switch,
      'Switch Branch…',
      'Continue this notebook as another branch',
      async ({ page, view }, { name }) => {
        const chosen =
          typeof name === 'string' ? name : await askBranch('Switch to', 'Switch', others(view));
        if (chosen !== null) {
          await page.actAloud({ op: 'switch', name: chosen });
        }
      },
      ({ view }) => others(view).length > 0
    );
    add(
      COMMANDS.pause,
      'Pause',
      'Give memory and processor back; the next cell wakes the machine',
      ({ page, branch }) => page.actAloud({ op: 'pause', name: branch.name }),
      ({ branch }) => branch.state === 'live' && !branch.busy
    );
    add(
      COMMANDS.resume,
      'Resume',
      'Wake the machine of this notebook',
      ({ page, branch }) => page.actAloud({ op: 'resume', name: branch.name }),
      ({ branch }) => branch.state === 'paused'
    );

    commands.addCommand(COMMANDS.restoreText, {
      label: 'Restore the Text of a Checkpoint…',
      caption: "Put this notebook's cells back as they were then",
      icon: lineageIcon,
      isEnabled: () => (following.current?.view?.checkpoints.length ?? 0) > 0,
      execute: async ({ session, checkpoint }) => {
        try {
          const { panel, lineage, view } = showing(following, session);
          const chosen =
            typeof checkpoint === 'string'
              ? recorded(view, checkpoint)
              : await askCheckpoint('Restore the text of', 'Restore', view);
          return chosen !== null && (await restorer.restore(panel, lineage, chosen));
        } catch (error) {
          complain(error);
          return false;
        }
      }
    });
    palette?.addItem({ command: COMMANDS.restoreText, category: CATEGORY });

    following.changed.connect(() => {
      for (const id of Object.values(COMMANDS)) {
        if (commands.hasCommand(id)) {
          commands.notifyCommandChanged(id);
        }
      }
    });
  }
};

/**
 * The notebook of a session, wherever it is on the page by now; without a session the one in front.
 * Throws if there is none.
 */
function showing(
  following: IFollowing,
  session: unknown
): { panel: NotebookPanel; lineage: ServerLineage; view: LineageView } {
  const notebook = notebookOf(following, session);
  const { lineage, view } = notebook ?? {};
  if (!notebook || !lineage || !view) {
    throw refusal('The notebook of that session is not open here.', 'Open it, and try again.');
  }
  return { panel: notebook.panel, lineage, view };
}

/** A checkpoint of a session, as `found` has it. Throws if there is none. */
function recorded(view: LineageView, wanted: string): CheckpointView {
  const checkpoint = found(view, wanted);
  if (checkpoint === null) {
    throw refusal(
      'That checkpoint is not in the lineage of this notebook.',
      'Choose another one in the panel.'
    );
  }
  return checkpoint;
}

/** What is told of something that cannot be done, with what can be. */
function refusal(message: string, hint: string): Error {
  return Object.assign(new Error(message), { hint });
}

/** A checkpoint by its id or its label. */
function found(view: LineageView, wanted: string): CheckpointView | null {
  const byId = view.checkpoints.find(({ facts }) => facts.id === wanted);
  return byId ?? view.checkpoints.findLast(({ facts }) => facts.label === wanted) ?? null;
}
