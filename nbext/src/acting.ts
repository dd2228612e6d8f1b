/** Has a session do something for the page, and says in words what became of it. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import type { ServerLineage } from './api';
import { refusalOf } from './lineage/doing';
import { el } from './lineage/dom';
import type { Action, CellText, LineageService, PageDeeds, Question, Told } from './lineage/facts';
import { outcome } from './lineage/outcomes';

/** In milliseconds: long enough to be read, and gone before it is in the way. */
const BRIEFLY = 4000;
/** JupyterLab cuts off what is longer than this. */
const MOST_SHOWN = 140;

/** The commands that a tree's buttons stand for, where only a page can do what they say. */
export const COMMANDS = {
  checkpoint: 'branchpoint:checkpoint',
  fork: 'branchpoint:fork',
  rollback: 'branchpoint:rollback',
  switch: 'branchpoint:switch',
  pause: 'branchpoint:pause',
  resume: 'branchpoint:resume',
  showPanel: 'branchpoint:show-panel',
  restoreText: 'branchpoint:restore-text',
  openBranch: 'branchpoint:open-branch',
  compare: 'branchpoint:compare'
} as const;

/** Say what went wrong, and what can be done about it. */
export function complain(error: unknown): void {
  const { message, hint } = refusalOf(error);
  const words = hint === '' ? message : `${message}\n${hint}`;
  const actions: Notification.IAction[] = [];
  if (words.length > MOST_SHOWN) {
    const callback = (): void => void showWhole([message, hint]);
    actions.push({ label: 'Read all of it', callback });
  }
  Notification.error(words, { autoClose: false, actions });
}

async function showWhole(lines: readonly string[]): Promise<void> {
  const body = new Widget();
  body.node.append(...lines.filter(Boolean).map(line => el('p', 'bp-Whole', line)));
  const buttons = [Dialog.cancelButton({ label: 'Close' })];
  await showDialog({ title: 'Branchpoint', body, buttons });
}

/** Say what went well. */
export function tell(words: string, actions: Notification.IAction[] = []): void {
  if (words !== '') {
    Notification.success(words, { autoClose: actions.length > 0 ? BRIEFLY * 3 : BRIEFLY, actions });
  }
}

/** What only this page can do for a session whose notebook is open in it. */
export function pageDeeds(session: string, commands: CommandRegistry): PageDeeds {
  const execute = async (command: string, args: Record<string, string>): Promise<boolean> => {
    if (!commands.hasCommand(command)) {
      throw new Error(`This page has no command ${command}.`);
    }
    return (await commands.execute(command, args)) === true;
  };
  return {
    openBranch: branch => execute(COMMANDS.openBranch, { session, branch }),
    compareBranches: (left, right) => execute(COMMANDS.compare, { session, left, right }),
    restoreText: checkpoint => execute(COMMANDS.restoreText, { session, checkpoint })
  };
}

/** The session of a notebook that is open in this page, with what only a page can do. */
export class PageLineage implements LineageService {
  readonly page: PageDeeds;

  constructor(
    private readonly lineage: ServerLineage,
    commands: CommandRegistry,
    private readonly offerText: () => boolean
  ) {
    this.page = pageDeeds(lineage.session, commands);
  }

  /** For a tree, which tells by itself what became of it; only what can be done next is offered. */
  async act(action: Action): Promise<Record<string, unknown>> {
    const done = await this.lineage.act(action);
    const offers = this.offers(action);
    if (offers.length > 0) {
      tell(outcome(action, done), offers);
    }
    return done;
  }

  /** For whoever has no place to tell it: what became of it is told by a notification. */
  async actAloud(action: Action): Promise<void> {
    try {
      const done = await this.lineage.act(action);
      tell(outcome(action, done), this.offers(action));
    } catch (error) {
      complain(error);
    }
  }

  async ask(question: Question, unwanted?: AbortSignal): Promise<Told | CellText[]> {
    return this.lineage.ask(question, unwanted);
  }

  private offers(action: Action): Notification.IAction[] {
    if (action.op !== 'rollback' || !this.offerText()) {
      return [];
    }
    const callback = (): void => void this.page.restoreText(action.target);
    return [{ label: 'Restore its text', callback, displayType: 'accent' }];
  }
}
