// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch, aCheckpoint } from '../../demo/sessions';
import type { CheckpointView } from '../../src/lineage/facts';
import { isQuiet, type Shown, visible } from '../../src/lineage/folding';
import { folds, goes } from '../../src/lineage/keyboard';
import { place } from '../../src/lineage/layout';

/** A line of automatic checkpoints between two named ones. */
function line(count: number): CheckpointView[] {
  const all = [aCheckpoint('k0', null, 'main', 'user', 'loaded')];
  for (let number = 1; number <= count; number += 1) {
    all.push(automatic(`a${number}`, all.at(-1)?.facts.id ?? null));
  }
  return all;
}

function automatic(id: string, parent: string | null, branch = 'main'): CheckpointView {
  const made = aCheckpoint(id, parent, branch, 'auto', `auto-${id.slice(1)}`);
  return { ...made, facts: { ...made.facts, note: '', pinned: false } };
}

function keys(rows: readonly Shown[]): string[] {
  return rows.map(({ key }) => key);
}

test('a long run of automatic checkpoints is one row at first, but for the newest', () => {
  const rows = visible(place(line(15), [aBranch('main', 'a15')]), new Map());
  expect(keys(rows)).toEqual(['c:k0', 'r:c:a1', 'c:a13', 'c:a14', 'c:a15', 'b:main']);
  expect([rows[1]?.run, rows[1]?.hidden, rows[1]?.folded]).toEqual([12, 12, true]);
  expect(rows.map(({ parent }) => parent)).toEqual([null, 0, 1, 2, 3, 4]);
});

test('a short run folds only when asked to', () => {
  const placed = place(line(8), [aBranch('main', 'a8')]);
  const open = visible(placed, new Map());
  expect(open[1]).toMatchObject({ key: 'r:c:a1', run: 5, folded: false });
  expect(open).toHaveLength(11);
  const folded = visible(placed, new Map([['r:c:a1', true]]));
  expect(keys(folded)).toEqual(['c:k0', 'r:c:a1', 'c:a6', 'c:a7', 'c:a8', 'b:main']);
});

test('what has a note, a pin or a name of its own stays in sight', () => {
  const plain = automatic('a1', null);
  expect(isQuiet(plain)).toBe(true);
  for (const more of [
    { note: 'keep' },
    { pinned: true },
    { label: 'loaded' },
    { kind: 'safety' }
  ]) {
    expect(isQuiet({ ...plain, facts: { ...plain.facts, ...more } as never })).toBe(false);
  }
});

test('a checkpoint that something leaves ends a run', () => {
  const placed = place(
    [...line(12), automatic('b1', 'a6', 'idea')],
    [aBranch('main', 'a12'), aBranch('idea', 'b1')]
  );
  const rows = visible(placed, new Map([['r:c:a1', true]]));
  expect(keys(rows)).toContain('c:a6');
  expect(rows[1]?.run).toBe(5);
});

test('a whole line folds to its first row, with all that comes of it', () => {
  const placed = place(
    [
      aCheckpoint('k0', null, 'main'),
      aCheckpoint('k1', 'k0', 'idea'),
      aCheckpoint('k2', 'k1', 'idea')
    ],
    [aBranch('main', 'k0'), aBranch('idea', 'k2')]
  );
  expect(keys(visible(placed, new Map()))).toEqual(['c:k0', 'c:k1', 'c:k2', 'b:idea', 'b:main']);
  const rows = visible(placed, new Map([['c:k1', true]]));
  expect(keys(rows)).toEqual(['c:k0', 'c:k1', 'b:main']);
  expect(rows[1]).toMatchObject({ folded: true, hidden: 2 });
});

test('nothing that was found is folded away', () => {
  const placed = place(line(15), [aBranch('main', 'a15')]);
  expect(keys(visible(placed, new Map(), new Set(['c:a4'])))).toContain('c:a4');
});

test('keys lead from row to row, to the one it comes from and to what comes of it', () => {
  const rows = visible(place(line(3), [aBranch('main', 'a3')]), new Map());
  expect(goes('ArrowDown', rows, 0)).toBe(1);
  expect(goes('ArrowUp', rows, 0)).toBeNull();
  expect(goes('ArrowLeft', rows, 2)).toBe(1);
  expect(goes('ArrowRight', rows, 0)).toBe(1);
  expect(goes('ArrowRight', rows, 4)).toBeNull();
  expect([goes('Home', rows, 3), goes('End', rows, 1), goes('PageDown', rows, 1)]).toEqual([
    0, 4, 4
  ]);
});

test('plus, minus and the right arrow fold and unfold', () => {
  const row = { folded: true } as Shown;
  expect([folds('+', row), folds('ArrowRight', row), folds('-', row)]).toEqual([
    false,
    false,
    null
  ]);
  expect(folds('-', { folded: false } as Shown)).toBe(true);
  expect(folds('-', { folded: null } as Shown)).toBeNull();
});
