/** Which cells show what is not so here, and why. Pure: from a view and counts to words. */
import type { LineageView, RanCell } from './lineage/facts';

/** A code cell as the document has it; `count` is null while it runs and where it never ran. */
export interface ShownCell {
  id: string;
  count: number | null;
  runs: boolean;
}

type Told = Pick<LineageView, 'line' | 'left' | 'died' | 'checkpoints' | 'branches'>;

const LEFT = 'Ran on a future that was left';
export const AGAIN = `${LEFT}; run it again to have it here.`;
export const DIED = 'Its machine ended before it was done; run it again.';

/** What can be continued as it is; one that is lost has only what was saved of it. */
const LIVES_ON = new Set(['live', 'paused', 'parked', 'lent']);

/**
 * By id, what is to be said of the cells whose shown output belongs to another future alone, and of
 * those that came to no end. A run that is in no list, of another kernel for one, is nobody's to
 * judge.
 */
export function leftBehind(view: Told, cells: readonly ShownCell[]): Map<string, string> {
  const here = new Set(view.line.map(runKey));
  const left = new Set(view.left.map(runKey));
  const died = new Set(view.died);
  const words = new Map<string, string>();
  for (const { id, count, runs } of cells) {
    if (!count) {
      if (died.has(id) && !runs) {
        words.set(id, DIED);
      }
      continue;
    }
    const key = runKey({ id, count });
    if (left.has(key) && !here.has(key)) {
      words.set(id, leftWords(forksOf(view, key)));
    }
  }
  return words;
}

/** The branches that were forked by a run and can be continued. */
function forksOf(view: Told, key: string): string[] {
  const points = new Set<string>();
  for (const { facts, cell } of view.checkpoints) {
    // A magic before any cell of code has the number 0 on record, and 1 beside it.
    const asked = cell && runKey({ id: cell.id, count: Math.max(1, cell.count) });
    if (facts.kind === 'fork-point' && asked === key) {
      points.add(facts.id);
    }
  }
  const forks = view.branches.filter(
    ({ facts }) => points.has(facts.origin) && LIVES_ON.has(facts.state)
  );
  return forks.map(({ facts }) => facts.name);
}

function leftWords(forks: readonly string[]): string {
  const [first] = forks;
  if (first === undefined) {
    return AGAIN;
  }
  if (forks.length === 1) {
    return `${LEFT}. Its fork ${first} lives on: %switch ${first} continues as it.`;
  }
  const named = `${forks.slice(0, -1).join(', ')} and ${forks.at(-1)}`;
  return `${LEFT}. Its forks ${named} live on: %switch ${first} continues as the first.`;
}

/** A count has no space in it, so the key of one run is never that of another. */
function runKey({ id, count }: RanCell): string {
  return `${count} ${id}`;
}
