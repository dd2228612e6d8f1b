/** Which of the open notebooks shows what a branch has run last. Pure. */
import type { BranchView, LineageView } from './lineage/facts';

/** An open notebook, by the session that it has. */
export interface OpenNotebook {
  readonly view: Pick<LineageView, 'session' | 'key'> | null;
}

/** The notebook of a session, wherever it is on the page; without a session the one in front. */
export function notebookOf<T extends OpenNotebook>(
  { all, current }: { all: readonly T[]; current: T | null },
  session: unknown
): T | null {
  const named = typeof session === 'string';
  return named ? (all.find(({ view }) => view?.session === session) ?? null) : current;
}

/**
 * A session's own notebook shows its current branch and no other. A branch that was lent is shown
 * by the notebook that carries it on. Null if that one is not open.
 */
export function documentOf<T extends OpenNotebook>(
  notebooks: readonly T[],
  { session, current }: Pick<LineageView, 'session' | 'current'>,
  { facts: { name, state }, lent_to }: BranchView
): T | null {
  if (state === 'lent') {
    return notebooks.find(({ view }) => view?.key === lent_to) ?? null;
  }
  const own = notebooks.find(({ view }) => view?.session === session);
  return current === name ? (own ?? null) : null;
}
