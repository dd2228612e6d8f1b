/** The outputs of runs, as notebooks that are open in this page show them. */
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import { Widget } from '@lumino/widgets';
import type { Outputs, Side } from './comparing_table';
import type { CellText } from './lineage/facts';

/** Draws copies: a comparison stays as it is while the notebooks go on. */
export class ShownOutputs implements Outputs {
  private readonly drawn: { area: Widget; place: HTMLElement }[] = [];

  /** Null for a branch that no open notebook shows. */
  constructor(private readonly notebooks: Record<Side, NotebookPanel | null>) {}

  draw(side: Side, cell: CellText, place: HTMLElement): boolean {
    const panel = this.notebooks[side];
    const model = this.find(side, cell);
    if (panel === null || model === null || model.outputs.length === 0) {
      return false;
    }
    const area = new SimplifiedOutputArea({
      model: new OutputAreaModel({ values: model.outputs.toJSON(), trusted: model.trusted }),
      rendermime: panel.content.rendermime,
      contentFactory: SimplifiedOutputArea.defaultContentFactory
    });
    this.drawn.push({ area, place });
    this.attach();
    return true;
  }

  differ(left: CellText, right: CellText): boolean {
    const ours = this.find('left', left);
    const theirs = this.find('right', right);
    return ours !== null && theirs !== null && said(ours) !== said(theirs);
  }

  /** Show what was drawn before the places for it were in the page. */
  attach(): void {
    for (const { area, place } of this.drawn) {
      if (!area.isAttached && place.isConnected) {
        Widget.attach(area, place);
      }
    }
  }

  /** Before the places leave the page: an area that is shown must be taken out of it by itself. */
  clear(): void {
    for (const { area } of this.drawn.splice(0)) {
      area.dispose();
    }
  }

  /** The cell that shows this very run: run again, it has another number. */
  private find(side: Side, { id, count }: CellText): ICodeCellModel | null {
    const cells = this.notebooks[side]?.content.model?.cells ?? [];
    for (const cell of cells) {
      if (cell.id === id && cell.type === 'code') {
        const model = cell as ICodeCellModel;
        return model.executionCount === count ? model : null;
      }
    }
    return null;
  }
}

/** What outputs say, without the numbers of the runs and what else is of the moment. */
function said(model: ICodeCellModel): string {
  return JSON.stringify(model.outputs.toJSON().map(withoutMoment));
}

function withoutMoment(output: IOutput): IOutput {
  const { execution_count: _count, metadata: _metadata, transient: _transient, ...rest } = output;
  return rest as IOutput;
}
