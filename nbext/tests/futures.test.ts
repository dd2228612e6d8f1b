import { expect, test } from 'vitest';
import { small } from '../demo/sessions';
import { AGAIN, DIED, leftBehind, type ShownCell } from '../src/futures';
import type { BranchState, BranchView, LineageView } from '../src/lineage/facts';

const line = [{ id: 'a', count: 1 }];
const left = [
  { id: 'b', count: 2 },
  { id: 'a', count: 3 }
];

function view(changed: Partial<LineageView> = {}): LineageView {
  return { ...small(), line, left, died: ['d'], ...changed };
}

function cell(id: string, count: number | null, runs = false): ShownCell {
  return { id, count, runs };
}

function said(shown: ShownCell, changed: Partial<LineageView> = {}): string | undefined {
  return leftBehind(view(changed), [shown]).get(shown.id);
}

/** A session in which cell b has forked `names`, which are in those states now. */
function forked(states: Record<string, BranchState>, count = 2): Partial<LineageView> {
  const fork = (name: string, state: BranchState): BranchView[] =>
    small()
      .branches.slice(0, 1)
      .map(branch => {
        Object.assign(branch.facts, { name, state, origin: 'p' });
        return branch;
      });
  const checkpoints = small().checkpoints.slice(0, 1);
  for (const point of checkpoints) {
    Object.assign(point.facts, { id: 'p', kind: 'fork-point' });
    point.cell = { id: 'b', count };
  }
  return { checkpoints, branches: Object.entries(states).flatMap(([name, to]) => fork(name, to)) };
}

test('a cell that ran on another future alone is left behind', () => {
  expect(said(cell('b', 2))).toBe(AGAIN);
});

test('a cell whose shown run is part of this line of work is not', () => {
  expect(said(cell('a', 1))).toBeUndefined();
});

test('a cell that shows a run of another future is left behind though an older one is here', () => {
  expect(said(cell('a', 3))).toBe(AGAIN);
});

test('a run that both futures have is here', () => {
  expect(said(cell('b', 2), { line: [{ id: 'b', count: 2 }] })).toBeUndefined();
});

test('a cell that runs, and one that never ran, are left as they are', () => {
  expect(said(cell('b', null, true))).toBeUndefined();
  expect(said(cell('b', null))).toBeUndefined();
});

test('a run that nobody has on record is left as it is', () => {
  expect(said(cell('b', 7))).toBeUndefined();
});

test('another cell with the same number is another run', () => {
  expect(said(cell('c', 2), { line: [] })).toBeUndefined();
});

test('of a cell that forked it is said that its forks live on, and how to get to them', () => {
  const words = said(cell('b', 2), forked({ ridge: 'live', forest: 'paused', boost: 'parked' }));
  expect(words).toContain('Its forks ridge, forest and boost live on: %switch ridge');
  expect(words).not.toContain('again');
});

test('a fork that is dropped or lost is not named', () => {
  const words = said(cell('b', 2), forked({ ridge: 'dropped', forest: 'lent', boost: 'lost' }));
  expect(words).toContain('Its fork forest lives on: %switch forest');
  expect(said(cell('b', 2), forked({ ridge: 'dropped' }))).toBe(AGAIN);
});

test('a magic before any cell of code has the number 0 on record, and 1 beside it', () => {
  const before = { ...forked({ ridge: 'live' }, 0), left: [{ id: 'b', count: 1 }] };
  expect(said(cell('b', 1), before)).toContain('ridge lives on');
});

test('of a cell whose machine ended before it was done that is said', () => {
  expect(said(cell('d', null))).toBe(DIED);
  expect(said(cell('d', 0))).toBe(DIED);
});

test('of one that runs again, or has run to its end since, it is not', () => {
  expect(said(cell('d', null, true))).toBeUndefined();
  expect(said(cell('d', 4))).toBeUndefined();
});
