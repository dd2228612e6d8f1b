/** Where two branches of a session parted. Pure. */
import type { LineageView } from './lineage/facts';

/** The last checkpoint that both stand on, by its id; null if none is on record. */
export function partedAt(view: LineageView, left: string, right: string): string | null {
  const theirs = new Set(line(view, right));
  return line(view, left).find(id => theirs.has(id)) ?? null;
}

/** The checkpoints that a branch stands on, the newest first. */
function line({ branches, checkpoints }: LineageView, branch: string): string[] {
  const parents = new Map(checkpoints.map(({ facts }) => [facts.id, facts.parent]));
  const ids: string[] = [];
  let at = branches.find(({ facts }) => facts.name === branch)?.facts.head ?? null;
  while (at !== null && parents.has(at)) {
    ids.push(at);
    at = parents.get(at) ?? null;
  }
  return ids;
}
