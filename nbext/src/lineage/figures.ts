/** The figures that move while nothing is done: told without the rest of a view, which is large. */
import type { BranchView, LineageView } from './facts';

/** Mirrors BranchFigures in branchpoint_vmruntime/figures.py. */
export type BranchFigures = Pick<
  BranchView,
  'lived_s' | 'requests' | 'sent_bytes' | 'received_bytes' | 'tokens_in' | 'tokens_out' | 'micros'
> &
  Pick<BranchView['facts'], 'own_bytes' | 'shared_bytes'>;

/** What has become of live branches, by their names, since a view was made. */
export type Figures = Record<string, BranchFigures>;

/** A view with the figures that have moved since. */
export function withFigures(view: LineageView, figures: Figures): LineageView {
  const branches = view.branches.map(branch => {
    const moved = figures[branch.facts.name];
    if (moved === undefined) {
      return branch;
    }
    const { own_bytes, shared_bytes, ...spent } = moved;
    return { ...branch, ...spent, facts: { ...branch.facts, own_bytes, shared_bytes } };
  });
  return { ...view, branches };
}
