/** Two lines of work side by side: which cells belong together, and how their sources differ. Pure. */
import type { CellText } from './lineage/facts';

/**
 * `common` ran once, before the two parted; `same` ran in each, word for word alike; `changed` is
 * the same cell with another source; `left` and `right` are of one side alone.
 */
export type PairKind = 'common' | 'same' | 'changed' | 'left' | 'right';

export interface CellPair {
  kind: PairKind;
  left: CellText | null;
  right: CellText | null;
}

/** A part of a line, and whether the other side lacks it. */
export interface Piece {
  text: string;
  marked: boolean;
}

export interface LinePair {
  kind: 'same' | 'changed' | 'left' | 'right';
  left: Piece[] | null;
  right: Piece[] | null;
}

type Alike = (left: number, right: number) => boolean;

/** A table of more fields than this takes longer than anybody waits. */
const MOST_FIELDS = 4_000_000;
/** Finding out whether two texts are kin takes long as well, in its own way. */
const MOST_KIN_FIELDS = 40_000;
/** As much of the longer one as both have, from which on they count as one that was changed. */
const KINSHIP = 0.5;

/**
 * The cells of both sides in an order that keeps each side's own: what they began with together,
 * then what ran in each, matched by source, and between those by place in the document or likeness.
 *
 * A cell that ran in several branches at once looks like one run: `most` is how many of the first
 * can be common, as far as that is known.
 */
export function alignCells(
  left: readonly CellText[],
  right: readonly CellText[],
  most = Infinity
): CellPair[] {
  const begun = Math.min(commonBeginning(left, right), most);
  const pairs = left.slice(0, begun).map((cell, at) => pair('common', cell, right[at] ?? null));
  const ours = left.slice(begun);
  const theirs = right.slice(begun);
  const same = matches(ours.length, theirs.length, (i, j) => ours[i]?.source === theirs[j]?.source);
  const found = gaps(ours, theirs, same, alignKin, (ourCell, theirCell) => [
    pair('same', ourCell, theirCell)
  ]);
  return [...pairs, ...found];
}

/** How many runs both sides have in common, from the first on. */
export function commonBeginning(left: readonly CellText[], right: readonly CellText[]): number {
  const parted = left.findIndex((cell, at) => !isSameRun(cell, right[at]));
  return parted < 0 ? left.length : parted;
}

/**
 * The whole line of a branch that another session carries on: what it had, and what was run since,
 * which that session may tell with its beginning or without.
 */
export function joined(before: readonly CellText[], since: readonly CellText[]): CellText[] {
  const isWhole = commonBeginning(before, since) === before.length;
  return isWhole ? [...since] : [...before, ...since];
}

/** The lines of two sources, those that belong together on one row. */
export function alignLines(left: string, right: string): LinePair[] {
  const ours = left.split('\n');
  const theirs = right.split('\n');
  const same = matches(ours.length, theirs.length, (i, j) => ours[i] === theirs[j]);
  return gaps(ours, theirs, same, alignChangedLines, (ourLine, theirLine) => [
    { kind: 'same', left: whole(ourLine), right: whole(theirLine) }
  ]);
}

/** The pieces of two lines; what the other one lacks is marked. */
export function alignWords(left: string, right: string): [Piece[], Piece[]] {
  const ours = words(left);
  const theirs = words(right);
  const same = matches(ours.length, theirs.length, (i, j) => ours[i] === theirs[j]);
  const inBoth = [new Set(same.map(([i]) => i)), new Set(same.map(([, j]) => j))] as const;
  return [pieces(ours, inBoth[0]), pieces(theirs, inBoth[1])];
}

/** Indices of a longest common subsequence; what is alike at both ends costs nothing. */
export function matches(left: number, right: number, alike: Alike): [number, number][] {
  let start = 0;
  while (start < left && start < right && alike(start, start)) {
    start += 1;
  }
  let end = 0;
  while (end < left - start && end < right - start && alike(left - 1 - end, right - 1 - end)) {
    end += 1;
  }
  const head = Array.from({ length: start }, (_, at): [number, number] => [at, at]);
  const tail = Array.from({ length: end }, (_, at): [number, number] => [
    left - end + at,
    right - end + at
  ]);
  const inner = (i: number, j: number): boolean => alike(start + i, start + j);
  const middle = longest(left - start - end, right - start - end, inner);
  return [...head, ...middle.map(([i, j]): [number, number] => [start + i, start + j]), ...tail];
}

function longest(rows: number, columns: number, alike: Alike): [number, number][] {
  if (rows === 0 || columns === 0 || rows * columns > MOST_FIELDS) {
    return [];
  }
  const width = columns + 1;
  // How long it can get from a field on; read forwards, so the earliest matches are taken.
  const lengths = new Uint32Array((rows + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  const isAlike = new Uint8Array(rows * columns);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      const matched = alike(i, j);
      isAlike[i * columns + j] = matched ? 1 : 0;
      lengths[i * width + j] = matched
        ? Math.max(at(i + 1, j + 1) + 1, at(i + 1, j), at(i, j + 1))
        : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: [number, number][] = [];
  let [i, j] = [0, 0];
  while (i < rows && j < columns) {
    if (isAlike[i * columns + j] === 1 && at(i, j) === at(i + 1, j + 1) + 1) {
      found.push([i, j]);
      i += 1;
      j += 1;
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return found;
}

/** Walk over both sides: what lies between two matches goes one way, each match the other. */
function gaps<T, R>(
  left: readonly T[],
  right: readonly T[],
  found: readonly [number, number][],
  between: (left: readonly T[], right: readonly T[]) => R[],
  matched: (left: T, right: T) => R[]
): R[] {
  const made: R[] = [];
  let [i, j] = [0, 0];
  for (const [at, there] of found) {
    made.push(...between(left.slice(i, at), right.slice(j, there)));
    made.push(...matched(left[at] as T, right[there] as T));
    [i, j] = [at + 1, there + 1];
  }
  return [...made, ...between(left.slice(i), right.slice(j))];
}

function alignKin(left: readonly CellText[], right: readonly CellText[]): CellPair[] {
  const isSmall = left.length * right.length <= MOST_KIN_FIELDS;
  const kin = isSmall ? likeness(left.map(sourceLines), right.map(sourceLines)) : () => false;
  // A cell of the document that was run with another source is that cell, however much it changed.
  const found = matches(
    left.length,
    right.length,
    (i, j) => (left[i]?.id !== '' && left[i]?.id === right[j]?.id) || kin(i, j)
  );
  return gaps(
    left,
    right,
    found,
    (ours, theirs) => [
      ...ours.map(cell => pair('left', cell, null)),
      ...theirs.map(cell => pair('right', null, cell))
    ],
    (ours, theirs) => [pair('changed', ours, theirs)]
  );
}

function alignChangedLines(left: readonly string[], right: readonly string[]): LinePair[] {
  const isSmall = left.length * right.length <= MOST_KIN_FIELDS;
  const kin = isSmall ? likeness(left.map(telling), right.map(telling)) : () => false;
  return gaps(
    left,
    right,
    matches(left.length, right.length, kin),
    (ours, theirs) => [
      ...ours.map((line): LinePair => ({ kind: 'left', left: whole(line), right: null })),
      ...theirs.map((line): LinePair => ({ kind: 'right', left: null, right: whole(line) }))
    ],
    (ours, theirs) => {
      const [before, after] = alignWords(ours, theirs);
      return [{ kind: 'changed', left: before, right: after }];
    }
  );
}

/** Whether two of them have enough in common, by what each consists of. */
function likeness(left: readonly string[][], right: readonly string[][]): Alike {
  const counted = right.map(parts => new Map(Object.entries(countOf(parts))));
  return (i, j) => {
    const ours = left[i] ?? [];
    const theirs = right[j] ?? [];
    const seen = new Map(counted[j]);
    let shared = 0;
    for (const part of ours) {
      const count = seen.get(part) ?? 0;
      if (count > 0) {
        seen.set(part, count - 1);
        shared += 1;
      }
    }
    return shared > 0 && shared >= KINSHIP * Math.max(ours.length, theirs.length);
  };
}

function countOf(parts: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = Object.create(null) as Record<string, number>;
  for (const part of parts) {
    counts[part] = (counts[part] ?? 0) + 1;
  }
  return counts;
}

function sourceLines({ source }: CellText): string[] {
  return source.split('\n').flatMap(telling);
}

/** Words and signs without the space between them. */
function telling(line: string): string[] {
  return words(line).filter(word => word.trim() !== '');
}

function words(line: string): string[] {
  return line.match(/\w+|\s+|[^\w\s]/gu) ?? [];
}

function pieces(parts: readonly string[], inBoth: ReadonlySet<number>): Piece[] {
  const made: Piece[] = [];
  parts.forEach((text, at) => {
    const marked = !inBoth.has(at);
    const last = made.at(-1);
    if (last !== undefined && last.marked === marked) {
      last.text += text;
    } else {
      made.push({ text, marked });
    }
  });
  return made;
}

function whole(text: string): Piece[] {
  return [{ text, marked: false }];
}

function isSameRun(cell: CellText, other: CellText | undefined): boolean {
  return (
    other !== undefined &&
    cell.id === other.id &&
    cell.count === other.count &&
    cell.source === other.source
  );
}

function pair(kind: PairKind, left: CellText | null, right: CellText | null): CellPair {
  return { kind, left, right };
}
