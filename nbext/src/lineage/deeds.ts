/** Carries out what was chosen: asks what has to be asked, acts, and says what became of it. */

import type { Action, LineageView, Question, Refusal, Told } from './facts';
import type { Deed } from './actions';
import type { Doing } from './doing';
import { titleOf } from './formats';
import { branchOf, type Subject } from './layout';
import { outcome } from './outcomes';
import { Sheet } from './sheet';
import { rendered } from './told';

/** Where sheets are laid and outcomes said. */
export interface Desk {
  lay(sheet: Sheet): void;
  clear(sheet: Sheet): void;
  /** A sentence for everybody, read out as well. */
  announce(words: string): void;
  refuse(refusal: Refusal): void;
}

/** As `MAX_FORKS` in branchpoint_vmruntime/session.py has it. */
export const MOST_FORKS = 64;

export class Deeds {
  constructor(
    private readonly doing: Doing,
    private readonly desk: Desk,
    private readonly view: () => LineageView | null
  ) {}

  /** Do it, or ask what has to be known first. */
  perform(deed: Deed, subject: Subject): Promise<void> | void {
    const branch = branchOf(subject);
    switch (deed) {
      case 'rollback':
        return this.rollBack(subject);
      case 'fork':
        return this.fork(subject);
      case 'checkpoint':
        return this.checkpoint(branch);
      case 'diff':
        return this.differences(subject);
      case 'rename':
        return this.rename(subject);
      case 'note':
        return this.note(subject);
      case 'pin':
      case 'unpin':
        return this.straight(
          { op: 'pin', checkpoint: idOf(subject), pinned: deed === 'pin' },
          branch
        );
      case 'switch':
      case 'keep':
      case 'pause':
      case 'resume':
        return this.straight({ op: deed, name: branch }, branch);
      case 'drop':
        return this.drop(branch);
      case 'restore':
        return this.inThePage(deed, branch, titleOfSubject(subject), () =>
          this.doing.service.page?.restoreText(idOf(subject))
        );
      case 'open':
        return this.inThePage(deed, branch, branch, () =>
          this.doing.service.page?.openBranch(branch)
        );
      case 'compare': {
        const current = this.view()?.current ?? '';
        return this.inThePage(deed, branch, `${current}, ${branch}`, () =>
          this.doing.service.page?.compareBranches(current, branch)
        );
      }
    }
  }

  private rollBack(subject: Subject): void {
    const isTip = subject.kind === 'tip';
    const label = isTip ? subject.branch.facts.head_label : titleOfSubject(subject);
    const branch = this.view()?.current ?? null;
    const current = branch ?? 'the notebook';
    const sheet = new Sheet(`Roll ${current} back to ${label}?`, 'Roll back', true);
    const told = sheet.say('');
    const safety = sheet.check('Save what is left first, so that this can be undone', true);
    void this.ask(
      sheet,
      { op: 'preview', target: idOf(subject) },
      { looking: 'looking at what this undoes', without: 'Roll back without looking' },
      told,
      () => sheet.goesBy('Roll back without a preview')
    );
    sheet.onGo = () =>
      void this.act(
        sheet,
        // By its name: the notebook may be on another by the time that this is agreed to.
        {
          op: 'rollback',
          target: idOf(subject),
          ...(branch === null ? {} : { branch }),
          safety: safety.checked
        },
        current
      );
    this.desk.lay(sheet);
  }

  private differences(subject: Subject): void {
    const current = this.view()?.current ?? 'the notebook';
    const name = titleOfSubject(subject);
    const before = subject.kind === 'tip' ? subject.branch.facts.name : idOf(subject);
    const sheet = new Sheet(`From ${name} to ${current} as it is now`, null);
    const waiting = { looking: 'looking into both machines', without: '' };
    void this.ask(sheet, { op: 'diff', before }, waiting, sheet.say(''));
    this.desk.lay(sheet);
  }

  private fork(subject: Subject): void {
    const branch = branchOf(subject);
    const now = isAwake(subject);
    const from = subject.kind === 'tip' && !now ? subject.branch.facts.head_label : '';
    const sheet = new Sheet(`Fork ${from || titleOfSubject(subject)}`, 'Fork');
    const count = sheet.field('How many', 'number', '2');
    count.min = '1';
    count.max = String(MOST_FORKS);
    const names = sheet.field('Names', 'text', '', 'optional, with commas between: ridge, forest');
    sheet.onGo = () => {
      const wanted = readFork(count.value, names.value);
      if ('message' in wanted) {
        sheet.refuse(wanted);
        return;
      }
      const start = now ? { branch } : { start: idOf(subject) };
      void this.act(sheet, { op: 'fork', ...wanted, ...start }, branch);
    };
    this.desk.lay(sheet);
  }

  private checkpoint(branch: string): void {
    const sheet = new Sheet(`Checkpoint ${branch}`, 'Save');
    const label = sheet.field('Label', 'text', '', 'optional: one is made up if you give none');
    const note = sheet.area('Note', '');
    sheet.onGo = () => {
      const named = label.value.trim() ? { label: label.value.trim() } : {};
      const noted = note.value.trim() ? { note: note.value.trim() } : {};
      void this.act(sheet, { op: 'checkpoint', branch, ...named, ...noted }, branch);
    };
    this.desk.lay(sheet);
  }

  private rename(subject: Subject): void {
    const old = titleOfSubject(subject);
    const sheet = new Sheet(`Rename ${old}`, 'Rename');
    const label = sheet.field('Label', 'text', old);
    sheet.onGo = () => {
      const chosen = label.value.trim();
      if (!chosen) {
        sheet.refuse({ message: 'A label has to say something.', hint: 'type one, or cancel' });
        return;
      }
      const action: Action = { op: 'annotate', checkpoint: idOf(subject), label: chosen };
      void this.act(sheet, action, branchOf(subject));
    };
    this.desk.lay(sheet);
  }

  private note(subject: Subject): void {
    const old = subject.kind === 'checkpoint' ? subject.checkpoint.facts.note : '';
    const sheet = new Sheet(`Note on ${titleOfSubject(subject)}`, 'Keep note');
    const note = sheet.area('Note', old);
    sheet.onGo = () => {
      const action: Action = { op: 'annotate', checkpoint: idOf(subject), note: note.value.trim() };
      void this.act(sheet, action, branchOf(subject));
    };
    this.desk.lay(sheet);
  }

  private drop(branch: string): void {
    const sheet = new Sheet(`Drop ${branch}?`, 'Drop', true);
    sheet.say('Its machine ends, and what it did since its last checkpoint is lost.');
    sheet.say('Its checkpoints stay: it can be forked anew from any of them.');
    sheet.onGo = () => void this.act(sheet, { op: 'drop', names: [branch] }, branch);
    this.desk.lay(sheet);
  }

  /** Ask something whose answer is shown in a sheet, in the place of a line. */
  private async ask(
    sheet: Sheet,
    question: Question,
    waiting: { looking: string; without: string },
    place: HTMLElement,
    otherwise?: () => void
  ): Promise<void> {
    const current = this.view()?.current ?? '';
    sheet.look(`${waiting.looking}\u2026`, waiting.without);
    // Each sheet asks for itself: an answer to one that was closed is not waited for.
    const key = `ask ${question.op} ${Math.random()}`;
    const about = { op: question.op, branch: current };
    const answer = await this.doing.once(key, about, () =>
      this.doing.service.ask(question, sheet.unwanted)
    );
    if (!sheet.looks) {
      // It is being done without having looked.
      return;
    }
    sheet.hasLooked();
    if (answer !== null && 'done' in answer) {
      place.replaceWith(shown(answer.done));
    } else if (answer !== null) {
      place.remove();
      sheet.refuse(answer.refusal);
      otherwise?.();
    }
  }

  /** Act for a sheet, which stays as it is if that is refused. */
  private async act(sheet: Sheet, action: Action, branch: string): Promise<void> {
    sheet.forgive();
    sheet.working('working\u2026');
    const answer = await this.carryOut(action, branch);
    sheet.working(null);
    if (answer === null) {
      sheet.refuse({ message: 'That is being done already.', hint: 'wait until it is done' });
    } else if ('refusal' in answer) {
      sheet.refuse(answer.refusal);
    } else {
      this.desk.clear(sheet);
      this.desk.announce(outcome(action, answer.done));
    }
  }

  /** Act without a sheet; a refusal is shown on the desk. */
  private async straight(action: Action, branch: string): Promise<void> {
    const answer = await this.carryOut(action, branch);
    if (answer !== null && 'refusal' in answer) {
      this.desk.refuse(answer.refusal);
    } else if (answer !== null) {
      this.desk.announce(outcome(action, answer.done));
    }
  }

  private carryOut(
    action: Action,
    branch: string
  ): Promise<{ done: Record<string, unknown> } | { refusal: Refusal } | null> {
    const key = JSON.stringify(action);
    return this.doing.once(key, { op: action.op, branch }, () => this.doing.service.act(action));
  }

  private async inThePage(
    deed: 'open' | 'compare' | 'restore',
    branch: string,
    about: string,
    work: () => Promise<boolean> | undefined
  ): Promise<void> {
    const key = `${deed} ${about}`;
    const answer = await this.doing.once(key, { op: deed, branch }, async () => work());
    if (answer !== null && 'refusal' in answer) {
      this.desk.refuse(answer.refusal);
    } else if (answer?.done) {
      const words = { open: 'Open as a notebook', compare: 'Side by side', restore: 'Text of' };
      this.desk.announce(`${words[deed]}: ${about}.`);
    }
  }
}

/** What was asked for in the fork sheet, or what is wrong with it. */
export function readFork(
  count: string,
  names: string
): { count: number; names?: string[] } | Refusal {
  const wanted = Number(count);
  const listed = names.split(/[\s,]+/).filter(Boolean);
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > MOST_FORKS) {
    const hint = `type a whole number from 1 to ${MOST_FORKS}`;
    return { message: `${count || 'nothing'} is no number of forks.`, hint };
  }
  if (listed.length > 0 && listed.length !== wanted) {
    const message = `${wanted} forks were asked for, and ${listed.length} named.`;
    return { message, hint: 'name each of them, or none' };
  }
  return listed.length > 0 ? { count: wanted, names: listed } : { count: wanted };
}

/** The id a subject is known by: of a tip, that of the checkpoint it stands on. */
function idOf(subject: Subject): string {
  return subject.kind === 'tip' ? subject.branch.facts.head : subject.checkpoint.facts.id;
}

function titleOfSubject(subject: Subject): string {
  return subject.kind === 'tip' ? subject.branch.facts.name : titleOf(subject.checkpoint);
}

function isAwake(subject: Subject): boolean {
  return subject.kind === 'tip' && ['live', 'paused'].includes(subject.branch.facts.state);
}

function shown(answer: Told | unknown[]): Node {
  const box = document.createElement('div');
  box.className = 'bp-told';
  box.tabIndex = 0;
  if (!Array.isArray(answer)) {
    if (answer.html) {
      box.append(rendered(answer.html));
    } else {
      box.textContent = answer.text;
    }
  }
  return box;
}
