/** Where keys lead among the rows. Pure. */

import type { Shown } from './folding';

const PAGE = 10;

/** The place of the row that a key leads to from another; null if it leads nowhere. */
export function goes(key: string, rows: readonly Shown[], at: number): number | null {
  const last = rows.length - 1;
  switch (key) {
    case 'ArrowDown':
      return at < last ? at + 1 : null;
    case 'ArrowUp':
      return at > 0 ? at - 1 : null;
    case 'Home':
      return at > 0 ? 0 : null;
    case 'End':
      return at < last ? last : null;
    case 'PageDown':
      return at < last ? Math.min(last, at + PAGE) : null;
    case 'PageUp':
      return at > 0 ? Math.max(0, at - PAGE) : null;
    case 'ArrowLeft':
      return rows[at]?.parent ?? null;
    case 'ArrowRight':
      // What comes of a row is drawn below it, the first right there.
      return rows[at + 1]?.parent === at ? at + 1 : null;
    default:
      return null;
  }
}

/** Whether a key folds what is open or unfolds what is folded; null if it does neither. */
export function folds(key: string, row: Shown): boolean | null {
  if (row.folded === null) {
    return null;
  }
  if (row.folded && (key === '+' || key === '=' || key === 'ArrowRight')) {
    return false;
  }
  return !row.folded && key === '-' ? true : null;
}
