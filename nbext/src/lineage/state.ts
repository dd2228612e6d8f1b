/** What someone has made of the tree: chosen, folded, searched for. Knows no page. */

import type { LineageView } from './facts';
import { linesAtRest, runKey, visible } from './folding';
import { place, type Placed, type Subject, tipKey } from './layout';
import { matcher } from './search';

export class TreeState {
  placed: readonly Placed[] = [];
  folds = new Map<string, boolean>();
  chosen: string | null = null;
  query = '';
  private subjects = new Map<string, Subject>();

  /** Take over another view; what is chosen stays so, or goes along with the notebook. */
  show(view: LineageView, before: LineageView | null): void {
    this.placed = place(view.checkpoints, view.branches);
    this.subjects = new Map(this.placed.map(({ key, subject }) => [key, subject]));
    if (before === null) {
      // Once: what somebody looks at does not fold by itself.
      this.folds = new Map(linesAtRest(this.placed).map(key => [key, true]));
    }
    const here = view.current === null ? null : tipKey(view.current);
    const hasMoved = before !== null && before.current !== view.current;
    const was = before?.current ? tipKey(before.current) : null;
    if (this.subject(this.chosen) === null || (hasMoved && this.chosen === was)) {
      this.chosen = this.subject(here) === null ? null : here;
    }
  }

  subject(key: string | null): Subject | null {
    return key === null ? null : (this.subjects.get(key) ?? null);
  }

  /** The keys of what a search has found; null without a search. */
  found(): Set<string> | null {
    const matches = matcher(this.query);
    if (matches === null) {
      return null;
    }
    return new Set(this.placed.filter(({ subject }) => matches(subject)).map(({ key }) => key));
  }

  /** Unfold whatever hides something. */
  reveal(key: string): void {
    for (const each of this.line(key)) {
      this.folds.set(each, false);
    }
  }

  /** Unfold all there is; or fold each run, and each line that the notebook's does not come of. */
  foldAll(folded: boolean, current: string | null): void {
    this.folds = new Map(
      this.placed.flatMap(each => [
        [each.key, false],
        [runKey(each), false]
      ])
    );
    const line = new Set(current === null ? [] : this.line(tipKey(current)));
    for (const row of folded ? visible(this.placed, this.folds) : []) {
      if (row.folded !== null && !line.has(row.key)) {
        this.folds.set(row.key, true);
      }
    }
  }

  /** The keys of all that something came of, its own first. */
  private line(key: string): string[] {
    const line: string[] = [];
    let at = this.placed.find(each => each.key === key);
    while (at !== undefined) {
      line.push(at.key);
      at = at.parentRow === null ? undefined : this.placed[at.parentRow];
    }
    return line;
  }
}
