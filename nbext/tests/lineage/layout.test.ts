// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch, aCheckpoint } from '../../demo/sessions';
import type { BranchState } from '../../src/lineage/facts';
import { place } from '../../src/lineage/layout';
import vectors from './layout_vectors.json';

interface Example {
  checkpoints: [string, string | null, string][];
  branches: [string, string, BranchState][];
  rows: [string, number, number | null][];
}

// The other half is tests/unit/lineage/test_layout_vectors.py: picture and tree have to agree.
const examples = vectors as unknown as Example[];

test.each(examples.map((example, number) => ({ number, example })))(
  'the layout is that of the shared example $number',
  ({ example }) => {
    const placed = place(
      example.checkpoints.map(([id, parent, branch]) => aCheckpoint(id, parent, branch)),
      example.branches.map(([name, head, state]) => aBranch(name, head, state))
    );
    expect(placed.map(({ key, lane, parentRow }) => [key, lane, parentRow])).toEqual(example.rows);
    expect(placed.map(({ row }) => row)).toEqual(placed.map((_, number) => number));
  }
);

test('a checkpoint whose parent is gone begins a line', () => {
  const placed = place([aCheckpoint('k5', 'gone', 'main')], [aBranch('main', 'k5')]);
  expect(placed.map(({ key, parentRow }) => [key, parentRow])).toEqual([
    ['c:k5', null],
    ['b:main', 0]
  ]);
});

test('parents that run in a circle do not hang it', () => {
  const round = [aCheckpoint('a', 'b', 'main'), aCheckpoint('b', 'a', 'main')];
  expect(place(round, [aBranch('main', 'a')])).toEqual([]);
});
