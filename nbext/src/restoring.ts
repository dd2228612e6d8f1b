/** Puts the text of a checkpoint back into a notebook, told and asked first; outputs stay. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';
import { tell } from './acting';
import { el } from './lineage/dom';
import type { CheckpointView, LineageService } from './lineage/facts';
import { counted, titleOf } from './lineage/formats';
import { firstWords, isNothing, type TextPlan, textPlan } from './text_plan';

const MOST_LISTED = 8;

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
      Notification.info(`The text is as it was at ${title} already.`, { autoClose: 4000 });
      return false;
    }
    const wish = await ask(title, plan, panel.context.model.dirty);
    if (wish === null) {
      return false;
    }
    if (wish.saveFirst) {
      await panel.context.save();
    }
    const { changed, added, skipped } = put(panel, plan, wish.addMissing);
    this.app.shell.activateById(panel.id);
    const later = skipped > 0 ? ` ${counted(skipped, 'cell')} changed meanwhile and stay.` : '';
    const words = [`${counted(changed, 'cell')} put back`];
    if (added > 0) {
      words.push(`${counted(added, 'cell')} added`);
    }
    tell(`Text of ${title}: ${words.join(', ')}.${later}`);
    return true;
  }
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

async function ask(title: string, plan: TextPlan, dirty: boolean): Promise<Wish | null> {
  const buttons = [Dialog.cancelButton()];
  if (dirty) {
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
    defaultButton: 1
  });
  if (!button.accept) {
    return null;
  }
  return {
    saveFirst: dirty && button.label !== 'Restore',
    addMissing: plan.missing.length > 0 && isChecked === true
  };
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
    const { changed, missing, extra } = plan;
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
