/** Which rows are shown: runs of automatic checkpoints and whole branches fold away. Pure. */

import type { BranchState, BranchView, CheckpointView } from './facts';
import { branchOf, type Placed } from './layout';

/** A row as it is shown: something placed, or what stands for a run of checkpoints. */
export interface Shown {
  key: string;
  placed: Placed;
  /** How many checkpoints it stands for; 0 for a row that is itself. */
  run: number;
  /** Whether what belongs to it is folded away; null if nothing belongs to it. */
  folded: boolean | null;
  /** How many checkpoints and tips are hidden behind it. */
  hidden: number;
  hides: readonly Placed[];
  /** The place of the row it comes from, among those shown. */
  parent: number | null;
}

/** What someone has folded or unfolded by hand; what is not in it is as `isFoldedAtFirst` says. */
export type Folds = ReadonlyMap<string, boolean>;

export const LEAST_RUN = 4;
/** Shorter runs fold only when asked to. */
const FOLDED_AT_FIRST = 8;
/** So many of the newest on a line stay in sight: they are what one goes back to. */
const STAY = 3;

/** With more than so many rows, lines where nothing goes on any more are folded at first. */
export const MANY_ROWS = 80;
const LEAST_LINE = 2;
const AT_REST: ReadonlySet<BranchState> = new Set(['parked', 'paused', 'dropped']);

const UNLABELLED = /^(?:auto|checkpoint)-[1-9][0-9]*$/;

/** A checkpoint that nobody gave a name, a note or a pin. */
export function isQuiet({ facts }: CheckpointView): boolean {
  return (
    (facts.kind === 'auto' || facts.kind === 'user') &&
    !facts.note &&
    !facts.pinned &&
    (!facts.label || UNLABELLED.test(facts.label))
  );
}

export function runKey(first: Placed): string {
  return `r:${first.key}`;
}

/** The branch whose line is folded away behind a row; null for any other row. */
export function foldedLine({ run, folded, placed, hides }: Shown): BranchView | null {
  if (run > 0 || folded !== true) {
    return null;
  }
  const name = branchOf(placed.subject);
  for (const { subject } of hides) {
    if (subject.kind === 'tip' && subject.branch.facts.name === name) {
      return subject.branch;
    }
  }
  return null;
}

/** The lines of a large tree on which nothing goes on, by the keys of the rows they begin with. */
export function linesAtRest(placed: readonly Placed[]): string[] {
  if (placed.length <= MANY_ROWS) {
    return [];
  }
  const lines = placed.filter(each => {
    const below = isLineStart(placed, each) ? subtree(placed, each) : [];
    return below.length >= LEAST_LINE && [each, ...below].every(isAtRest);
  });
  return lines.map(({ key }) => key);
}

function isAtRest({ subject }: Placed): boolean {
  return (
    subject.kind === 'checkpoint' ||
    (AT_REST.has(subject.branch.facts.state) && !subject.branch.facts.current)
  );
}

/** The rows to show. `wanted` are those a search has found, which nothing may hide. */
export function visible(
  placed: readonly Placed[],
  folds: Folds,
  wanted: ReadonlySet<string> | null = null
): Shown[] {
  const shown: Shown[] = [];
  const placeOf = new Map<number, number>();
  const runs = runsOf(placed);
  const show = (row: Shown): void => {
    placeOf.set(row.placed.row, shown.push(row) - 1);
  };
  const parentOf = (each: Placed): number | null =>
    each.parentRow === null ? null : (placeOf.get(each.parentRow) ?? null);
  let after = 0;
  for (const each of placed) {
    const { row } = each;
    if (row < after) {
      continue;
    }
    const run = runs.get(row);
    if (run !== undefined) {
      const members = placed.slice(row, row + run);
      const key = runKey(each);
      const folded = !holds(members, wanted) && (folds.get(key) ?? run >= FOLDED_AT_FIRST);
      const hides = folded ? members : [];
      const parent = parentOf(each);
      show({ key, placed: each, run, folded, hidden: hides.length, hides, parent });
      if (folded) {
        const here = shown.length - 1;
        members.forEach(member => placeOf.set(member.row, here));
        after = row + run;
        continue;
      }
      const above = shown.length - 1;
      shown.push(plain(each, above));
      placeOf.set(each.row, above + 1);
      continue;
    }
    const below = isLineStart(placed, each) ? subtree(placed, each) : [];
    if (below.length === 0) {
      show(plain(each, parentOf(each)));
      continue;
    }
    const folded = (folds.get(each.key) ?? false) && !holds(below, wanted);
    const hides = folded ? below : [];
    show({ ...plain(each, parentOf(each)), folded, hidden: hides.length, hides });
    if (folded) {
      after = row + below.length + 1;
    }
  }
  return shown;
}

function plain(placed: Placed, parent: number | null): Shown {
  return { key: placed.key, placed, run: 0, folded: null, hidden: 0, hides: [], parent };
}

function holds(members: readonly Placed[], wanted: ReadonlySet<string> | null): boolean {
  return wanted !== null && members.some(member => wanted.has(member.key));
}

/** The first rows of runs, with how many checkpoints each has. */
function runsOf(placed: readonly Placed[]): Map<number, number> {
  const runs = new Map<number, number>();
  let first = 0;
  while (first < placed.length) {
    const each = placed[first];
    if (each !== undefined && isLineStart(placed, each)) {
      // It stands for its whole line, which folds behind it.
      first += 1;
    }
    let end = first;
    while (continues(placed, first, end)) {
      end += 1;
    }
    const length = end - first - (endsLine(placed, end) ? STAY : 0);
    if (length >= LEAST_RUN) {
      runs.set(first, length);
    }
    first = Math.max(end, first + 1);
  }
  return runs;
}

/** Whether the row at `at` is one more of a run that began at `first`. */
function continues(placed: readonly Placed[], first: number, at: number): boolean {
  const each = placed[at];
  if (each === undefined || each.subject.kind === 'tip' || !isQuiet(each.subject.checkpoint)) {
    return false;
  }
  const next = placed[at + 1];
  // One from which something leaves is not like the others.
  if (next !== undefined && next.parentRow === at && next.lane !== each.lane) {
    return false;
  }
  return at === first || (each.parentRow === at - 1 && each.lane === placed[first]?.lane);
}

/** Whether what comes at `end` is the tip of the line that the rows before it are. */
function endsLine(placed: readonly Placed[], end: number): boolean {
  const each = placed[end];
  return each !== undefined && each.subject.kind === 'tip' && each.parentRow === end - 1;
}

/** Whether something is the first of a line that leaves another one. */
function isLineStart(placed: readonly Placed[], each: Placed): boolean {
  return each.parentRow !== null && (placed[each.parentRow]?.lane ?? 0) < each.lane;
}

/** All that comes of something that begins a line: the rows right below it, further right. */
function subtree(placed: readonly Placed[], each: Placed): Placed[] {
  let end = each.row + 1;
  while ((placed[end]?.parentRow ?? -1) >= each.row) {
    end += 1;
  }
  return placed.slice(each.row + 1, end);
}
