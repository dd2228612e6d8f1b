import { expect, test } from 'vitest';
import type { LineageView } from '../src/lineage/facts';
import { partedAt } from '../src/parting';

function view(parents: Record<string, string | null>, heads: Record<string, string>): LineageView {
  const checkpoints = Object.entries(parents).map(([id, parent]) => ({ facts: { id, parent } }));
  const branches = Object.entries(heads).map(([name, head]) => ({ facts: { name, head } }));
  return { checkpoints, branches } as unknown as LineageView;
}

const parents = { base: null, loaded: 'base', fork: 'loaded', tuned: 'fork', other: 'loaded' };

test('two branches parted at the last checkpoint that both stand on', () => {
  const there = view(parents, { ridge: 'tuned', forest: 'fork', main: 'other' });
  expect(partedAt(there, 'ridge', 'forest')).toBe('fork');
  expect(partedAt(there, 'forest', 'main')).toBe('loaded');
});

test('branches whose common checkpoints have been removed parted nobody knows where', () => {
  const there = view({ a: 'gone', b: 'gone' }, { ridge: 'a', forest: 'b' });
  expect(partedAt(there, 'ridge', 'forest')).toBeNull();
  expect(partedAt(there, 'ridge', 'unknown')).toBeNull();
});
