/** Puts the text of a checkpoint back into a notebook, told and asked first; outputs stay. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';
import { complain, tell } from './acting';
import { el } from './lineage/dom';
import type { CheckpointView, LineageService } from './lineage/facts';
import { counted, titleOf } from './lineage/formats';
import { savedFirst } from './saving';
import { firstWords, isNothing, type TextPlan, textPlan } from './text_plan';

const MOST_LISTED = 8;
/** JupyterLab's menu, for what the file has no longer once the restored text is saved as well. */
const WHERE_IT_IS = 'File > Revert Notebook to Checkpoint';

/** What the user chose to have done. */
interface Wish {
  saveFirst: boolean;
  addMissing: boolean;
}

export class Restorer {
  constructor(private readonly app: JupyterFrontEnd) {}

  /**
   * Ask and put back; an edit that came while the question was open is not written over. False if
   * there was nothing to put back, or the user thought better of it.
   */
  async restore(
    panel: NotebookPanel,
    lineage: LineageService,
    checkpoint: CheckpointView
  ): Promise<boolean> {
    const title = titleOf(checkpoint);
    const runs = await lineage.ask({ op: 'cells', of: checkpoint.facts.id });
    const plan = planFor(panel, Array.isArray(runs) ? runs : []);
    if (plan === null) {
      return false;
    }
    if (isNothing(plan)) {
      const rest = plan.cut > 0 ? `, as far as is known: ${tooLong(plan)}` : '.';
      Notification.info(`The text is as it was at ${title} already${rest}`, { autoClose: 4000 });
      return false;
    }
    const { contentsModel, model } = panel.context;
    const wish = await ask(title, plan, model.dirty, contentsModel?.writable !== false);
    if (wish === null) {
      return false;
    }
    if (wish.saveFirst && !(await kept(panel))) {
      return false;
    }
    const { changed, added, skipped } = put(panel, plan, wish.addMissing);
    this.app.shell.activateById(panel.id);
    const later = skipped > 0 ? ` ${counted(skipped, 'cell')} changed meanwhile and stay.` : '';
    const words = [`${counted(changed, 'cell')} put back`];
    if (added > 0) {
      words.push(`${counted(added, 'cell')} added`);
    }
    const before = wish.saveFirst ? ` ${WHERE_IT_IS} has what was there.` : '';
    tell(`Text of ${title}: ${words.join(', ')}.${later}${before}`);
    return true;
  }
}

/**
 * Whether the notebook as it is has been saved, and as a checkpoint of Jupyter's too: JupyterLab
 * soon writes what is put back over the file, by itself.
 */
async function kept({ context }: NotebookPanel): Promise<boolean> {
  const name = PathExt.basename(context.path);
  const told = { hint: 'Save it yourself, or restore without saving.' };
  const refuse = async (): Promise<boolean> => {
    complain(Object.assign(new Error(`Nothing was put back: ${name} is not saved.`), told));
    return false;
  };
  if (!(await savedFirst(context, refuse))) {
    return false;
  }
  try {
    await context.createCheckpoint();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const words = `Nothing was put back: ${name} is saved, but Jupyter keeps no checkpoint (${why}).`;
    throw Object.assign(new Error(words), { hint: 'Restore without saving; the file has it.' });
  }
  return true;
}

function planFor(panel: NotebookPanel, runs: Parameters<typeof textPlan>[0]): TextPlan | null {
  const model = panel.content.model;
  if (model === null) {
    return null;
  }
  const cells = [...model.cells].map(cell => ({
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource()
  }));
  return textPlan(runs, cells);
}

async function ask(
  title: string,
  plan: TextPlan,
  dirty: boolean,
  writable: boolean
): Promise<Wish | null> {
  const buttons = [Dialog.cancelButton()];
  if (dirty && writable) {
    buttons.push(Dialog.createButton({ label: 'Save first, then restore', accept: true }));
  }
  buttons.push(
    dirty ? Dialog.warnButton({ label: 'Restore' }) : Dialog.okButton({ label: 'Restore' })
  );
  const { button, isChecked } = await showDialog({
    title: `Restore the text of ${title}?`,
    body: new Changes(plan, dirty),
    checkbox:
      plan.missing.length > 0
        ? {
            label: `Add ${counted(plan.missing.length, 'cell')} that ${areGone(plan)}`,
            checked: true
          }
        : null,
    buttons,
    // With edits at stake the safe way is what Enter does.
    defaultButton: dirty && !writable ? 0 : 1
  });
  if (!button.accept) {
    return null;
  }
  return {
    saveFirst: dirty && button.label !== 'Restore',
    addMissing: plan.missing.length > 0 && isChecked === true
  };
}

function tooLong({ cut }: TextPlan): string {
  return `${counted(cut, 'cell')} too long to be on record: left alone.`;
}

function areGone({ missing }: TextPlan): string {
  return missing.length === 1 ? 'is gone' : 'are gone';
}

/** Each cell is a step of its own to undo; what is not as it was when asked is left alone. */
function put(
  panel: NotebookPanel,
  plan: TextPlan,
  addMissing: boolean
): { changed: number; added: number; skipped: number } {
  const notebook = panel.content.model?.sharedModel;
  if (!notebook) {
    return { changed: 0, added: 0, skipped: plan.changed.length };
  }
  let changed = 0;
  for (const { id, now, ran } of plan.changed) {
    const cell = notebook.cells.find(one => one.getId() === id);
    if (cell?.getSource() === now) {
      cell.setSource(ran);
      changed += 1;
    }
  }
  let added = 0;
  for (const { id, source, after } of addMissing ? plan.missing : []) {
    const above = notebook.cells.findIndex(one => one.getId() === after);
    notebook.insertCell(above + 1, { id, cell_type: 'code', source, metadata: {} });
    added += 1;
  }
  return { changed, added, skipped: plan.changed.length - changed };
}

/** What is about to change, as a list. */
class Changes extends Widget {
  constructor(plan: TextPlan, dirty: boolean) {
    super();
    this.addClass('bp-Changes');
    if (dirty) {
      const words = 'This notebook has edits that are not saved.';
      this.node.append(el('p', 'bp-Changes-warning', words));
    }
    const { changed, missing, extra, cut } = plan;
    this.list(
      `${counted(changed.length, 'cell')} put back as it was:`,
      changed.map(
        ({ now, ran }) => `${firstWords(now) || 'nothing'} → ${firstWords(ran) || 'nothing'}`
      )
    );
    this.list(
      `${counted(missing.length, 'cell')} no longer in the notebook:`,
      missing.map(({ source }) => firstWords(source))
    );
    if (extra > 0) {
      const words = `${counted(extra, 'cell')} that had not been run then: left alone.`;
      this.node.append(el('p', '', words));
    }
    if (cut > 0) {
      this.node.append(el('p', '', tooLong(plan)));
    }
    this.node.append(
      el('p', 'bp-Changes-note', 'Outputs stay. Each cell can be undone by itself.')
    );
  }

  private list(heading: string, lines: readonly string[]): void {
    if (lines.length === 0) {
      return;
    }
    const list = el('ul');
    list.append(...lines.slice(0, MOST_LISTED).map(line => el('li', '', line)));
    if (lines.length > MOST_LISTED) {
      list.append(el('li', '', `… and ${lines.length - MOST_LISTED} more`));
    }
    this.node.append(el('p', '', heading), list);
  }
}
