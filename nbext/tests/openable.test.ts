import { expect, test } from 'vitest';
import type { LineageView } from '../src/lineage/facts';
import { isOf, openable } from '../src/openable';

function view(states: Record<string, string>): LineageView {
  const branches = Object.entries(states).map(([name, state]) => ({ facts: { name, state } }));
  return { branches, current: 'main' } as unknown as LineageView;
}

test('every branch but the current one and those given up can be opened', () => {
  const there = view({ main: 'live', ridge: 'paused', forest: 'dropped', boost: 'live' });
  expect(openable(there)).toEqual(['ridge', 'boost']);
});

test('one that another notebook has already is offered: that one is shown then', () => {
  expect(openable(view({ main: 'live', ridge: 'lent' }))).toEqual(['ridge']);
});

test('a session is of the notebook at the end of its key, by whole names', () => {
  expect(isOf('/home/eva/notes/demo-ridge.ipynb', 'notes/demo-ridge.ipynb')).toBe(true);
  expect(isOf('/home/eva/notes/demo-ridge.ipynb', 'ridge.ipynb')).toBe(false);
});
