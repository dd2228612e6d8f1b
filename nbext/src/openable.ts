/** Which branches can be opened as notebooks, and which notebook has one. */
import type { LineageView } from './lineage/facts';

/** Branches that another notebook can continue, or has already. */
export function openable({ branches, current }: LineageView): string[] {
  const facts = branches.map(branch => branch.facts);
  return facts
    .filter(({ name, state }) => name !== current && state !== 'dropped')
    .map(({ name }) => name);
}

/** Whether a session, by its key, is that of a notebook of this server, by its path. */
export function isOf(key: string, path: string): boolean {
  return key === path || key.endsWith(`/${path}`);
}
