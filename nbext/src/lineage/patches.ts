/** What has changed from one view to the next: a view is large, a change of it small. Pure. */
import type { LineageView } from './facts';

/** Items of the list before, from the first to before the end, or one that is new. */
type Piece = readonly [number, number] | { item: unknown };

/** Mirrors Patch in branchpoint_vmruntime/view_patches.py. */
export type Patch = Record<string, { value: unknown } | { pieces: readonly Piece[] }>;

/** The next view; what is the same in it is the same object. */
export function patched(view: LineageView, patch: Patch): LineageView {
  const next: Record<string, unknown> = { ...view };
  for (const [name, change] of Object.entries(patch)) {
    next[name] = 'value' in change ? change.value : joined(next[name], change.pieces);
  }
  return next as unknown as LineageView;
}

function joined(before: unknown, pieces: readonly Piece[]): unknown[] {
  const was = Array.isArray(before) ? (before as unknown[]) : [];
  return pieces.flatMap(piece => ('item' in piece ? [piece.item] : was.slice(...piece)));
}
