/** What restoring the text of a checkpoint changes in a document. Pure: from cells to a plan. */
import type { CellText } from './lineage/facts';

/** A cell as the document has it now. */
export interface DocumentCell {
  id: string;
  type: string;
  source: string;
}

/** A cell whose text was another when it ran. */
export interface ChangedCell {
  id: string;
  now: string;
  ran: string;
}

/** A cell that ran and is no longer in the document; it belongs below `after`, null for the top. */
export interface MissingCell {
  id: string;
  source: string;
  after: string | null;
}

/**
 * What differs. Cells that stay as they are are only counted: `extra` never ran, and of `cut` the
 * text is not on record to its end.
 */
export interface TextPlan {
  changed: ChangedCell[];
  missing: MissingCell[];
  extra: number;
  cut: number;
}

/** What a text on record ends with where it is not whole; _CUT in branchpoint_kernel/history.py. */
export const CUT = '\n… the rest of this cell is not kept …\n';

/**
 * Compare a document with the cells of a line of work, oldest first. A cell that ran more than once
 * had the text of its last run. A missing one belongs below the one that was run before it.
 */
export function textPlan(runs: readonly CellText[], document: readonly DocumentCell[]): TextPlan {
  const last = lastRuns(runs);
  const present = new Map(document.map(cell => [cell.id, cell]));
  const changed: ChangedCell[] = [];
  const missing: MissingCell[] = [];
  let cut = 0;
  let above: string | null = null;
  for (const [id, ran] of last) {
    const cell = present.get(id);
    if (ran.endsWith(CUT)) {
      cut += 1;
    } else if (cell === undefined) {
      missing.push({ id, source: ran, after: above });
    } else if (cell.type === 'code' && cell.source !== ran) {
      changed.push({ id, now: cell.source, ran });
    }
    above = id;
  }
  const extra = document.filter(cell => cell.type === 'code' && !last.has(cell.id)).length;
  return { changed, missing, extra, cut };
}

/** Whether the document is already as it was. */
export function isNothing(plan: TextPlan): boolean {
  return plan.changed.length === 0 && plan.missing.length === 0;
}

/** The first line of a text that says something, shortened for a list. */
export function firstWords(source: string, length = 60): string {
  const line =
    source
      .split('\n')
      .find(one => one.trim() !== '')
      ?.trim() ?? '';
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** In the order of first runs, which is nearer to the document's than that of the last ones. */
function lastRuns(runs: readonly CellText[]): Map<string, string> {
  const last = new Map<string, string>();
  for (const { id, source } of runs) {
    // Runs without a place in a document (a console's) have no cell to be put back into.
    if (id !== '') {
      last.set(id, source);
    }
  }
  return last;
}
