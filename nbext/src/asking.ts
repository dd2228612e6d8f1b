/** The dialogs before a fork, a rollback or a switch. */
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { MOST_FORKS, readFork } from './lineage/deeds';
import { el } from './lineage/dom';
import type { Action, CheckpointView, LineageService, LineageView } from './lineage/facts';
import { kindWords, titleOf, when } from './lineage/formats';
import { rendered } from './lineage/told';

/** How many branches, and what they are called; null if the user thought better of it. */
export async function askFork(branch: string): Promise<Action | null> {
  const { button, value } = await showDialog({
    title: `Fork ${branch}`,
    body: new ForkForm(),
    focusNodeSelector: 'input',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Fork' })]
  });
  if (!button.accept || value === null) {
    return null;
  }
  const wish = readFork(value.count, value.names);
  if ('message' in wish) {
    throw Object.assign(new Error(wish.message), { hint: wish.hint });
  }
  return { op: 'fork', branch, ...wish };
}

export interface RollbackWish {
  safety: boolean;
}

/** Whether to go back, told what that undoes; null if the user thought better of it. */
export async function askRollback(
  lineage: LineageService,
  branch: string,
  checkpoint: CheckpointView
): Promise<RollbackWish | null> {
  const { button, isChecked } = await showDialog({
    title: `Roll ${branch} back to ${titleOf(checkpoint)}?`,
    body: new Preview(lineage, checkpoint.facts.id),
    checkbox: {
      label: 'Save what is left, so that this can be undone',
      checked: true
    },
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Roll back' })],
    defaultButton: 1
  });
  return button.accept ? { safety: isChecked ?? true } : null;
}

/** One of the branches that the session is not on; null if the user thought better of it. */
export async function askBranch(
  title: string,
  okLabel: string,
  names: readonly string[]
): Promise<string | null> {
  const { button, value } = await InputDialog.getItem({ title, okLabel, items: [...names] });
  return button.accept && value !== null && names.includes(value) ? value : null;
}

/** One of a session's checkpoints, the newest first; null if the user thought better of it. */
export async function askCheckpoint(
  title: string,
  okLabel: string,
  view: LineageView
): Promise<CheckpointView | null> {
  const newest = view.checkpoints.toReversed();
  const items = newest.map(checkpoint => {
    const { created_at, kind } = checkpoint.facts;
    const why = kindWords(kind);
    return `${titleOf(checkpoint)} · ${when(created_at)}${why ? ` · ${why}` : ''}`;
  });
  const { button, value } = await InputDialog.getItem({ title, okLabel, items });
  return button.accept && value !== null ? (newest[items.indexOf(value)] ?? null) : null;
}

interface Typed {
  count: string;
  names: string;
}

class ForkForm extends Widget implements Dialog.IBodyWidget<Typed> {
  private readonly count = el('input', 'jp-mod-styled');
  private readonly names = el('input', 'jp-mod-styled');

  constructor() {
    super();
    this.addClass('bp-Form');
    Object.assign(this.count, { type: 'number', min: '1', max: String(MOST_FORKS), value: '2' });
    Object.assign(this.names, { type: 'text', placeholder: 'ridge, forest, boost' });
    this.node.append(
      labelled('How many branches', this.count),
      labelled('Their names, if they should have some', this.names)
    );
  }

  getValue(): Typed {
    return { count: this.count.value, names: this.names.value };
  }
}

/** What a rollback undoes and what it cannot, as the session tells it. */
class Preview extends Widget {
  private readonly closed = new AbortController();

  constructor(lineage: LineageService, target: string) {
    super();
    this.addClass('bp-Preview');
    this.node.setAttribute('aria-live', 'polite');
    this.node.textContent = 'Looking at what that undoes… You need not wait for it.';
    void this.tell(lineage, target);
  }

  override dispose(): void {
    this.closed.abort();
    super.dispose();
  }

  private async tell(lineage: LineageService, target: string): Promise<void> {
    try {
      const told = await lineage.ask({ op: 'preview', target }, this.closed.signal);
      if (!Array.isArray(told)) {
        this.node.replaceChildren(rendered(told.html));
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.node.textContent = `What that undoes could not be told: ${why}`;
    }
  }
}

function labelled(words: string, input: HTMLInputElement): HTMLLabelElement {
  const label = el('label', 'bp-Form-label', words);
  label.append(input);
  return label;
}
