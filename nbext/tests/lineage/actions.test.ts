// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch, aCheckpoint, aView } from '../../demo/sessions';
import { offers, type Offer, withoutDoubles } from '../../src/lineage/actions';
import { readFork } from '../../src/lineage/deeds';
import { refusalOf } from '../../src/lineage/doing';
import type { BranchState } from '../../src/lineage/facts';
import { outcome } from '../../src/lineage/outcomes';

const page = {
  page: {
    openBranch: async () => true,
    compareBranches: async () => true,
    restoreText: async () => true
  }
};

function tip(state: BranchState, more = {}, current = 'main'): Map<string, Offer> {
  const branch = aBranch('idea', 'k1', state, more);
  const view = aView([aCheckpoint('k1', null, 'main')], [aBranch('main', 'k1'), branch], current);
  const { branch: list } = offers({ kind: 'tip', branch }, view, page);
  return new Map(list.map(offer => [offer.deed, offer]));
}

function can(list: Map<string, Offer>): string[] {
  return [...list.values()].filter(offer => offer.can).map(({ deed }) => deed);
}

test('a live branch that is not current can be continued in every way', () => {
  const all = ['checkpoint', 'fork', 'switch', 'keep', 'pause', 'diff', 'open', 'compare', 'drop'];
  expect(can(tip('live'))).toEqual(all);
});

test('the current branch is neither switched to, nor dropped, nor compared with itself', () => {
  const here = tip('live', {}, 'idea');
  expect(can(here)).toEqual(['checkpoint', 'fork', 'rollback', 'keep', 'pause']);
  expect(here.get('drop')?.why).toContain('switch to another branch first');
});

test('what was dropped can only be forked anew', () => {
  const dropped = tip('dropped');
  expect(can(dropped)).toEqual(['fork']);
  expect(dropped.get('switch')?.why).toContain('was dropped');
});

test('what is lent can be looked at, and says which notebook has it', () => {
  expect(can(tip('lent'))).toEqual(['fork', 'diff', 'open', 'compare']);
  expect(tip('lent').get('switch')?.why).toContain('is open as forest.ipynb');
});

test('what is parked is resumed, not paused', () => {
  const parked = tip('parked');
  expect(parked.has('pause')).toBe(false);
  expect(parked.get('resume')?.can).toBe(true);
  expect(parked.get('checkpoint')?.can).toBe(false);
});

test('a busy branch is not opened as a notebook, unless to show the one that has it', () => {
  const { facts } = aBranch('idea', 'k1');
  expect(can(tip('live', { facts: { ...facts, busy: true } }))).not.toContain('open');
  expect(can(tip('lent', { facts: { ...facts, state: 'lent', busy: true } }))).toContain('open');
});

test('a busy branch is not paused', () => {
  const busy = aBranch('idea', 'k1');
  const list = tip('live', { facts: { ...busy.facts, busy: true } });
  expect(list.get('pause')).toMatchObject({ can: false });
});

test('a closed session offers nothing, and says why', () => {
  const checkpoint = aCheckpoint('k1', null, 'main');
  const view = aView([checkpoint], [aBranch('main', 'k1', 'paused')], 'main', { owner: null });
  const { checkpoint: list, branch } = offers({ kind: 'checkpoint', checkpoint }, view, {});
  const all = [...list, ...branch];
  expect(all.filter(offer => offer.can)).toEqual([]);
  expect(new Set(all.map(({ why }) => why)).size).toBe(1);
});

test('without its kernel a session that is open offers all but a look into machines', () => {
  const branch = aBranch('idea', 'k1');
  const checkpoint = aCheckpoint('k1', null, 'main');
  const view = aView([checkpoint], [aBranch('main', 'k1'), branch], 'main', { owner: 'owner' });
  const { checkpoint: list } = offers({ kind: 'checkpoint', checkpoint }, view, {});
  const { branch: others } = offers({ kind: 'tip', branch }, view, {});
  const cannot = [...list, ...others].filter(offer => !offer.can).map(({ deed }) => deed);
  expect(cannot).toEqual(['diff', 'diff']);
});

test('without a page of JupyterLab nothing is offered that only such a page can do', () => {
  const checkpoint = aCheckpoint('k1', null, 'main');
  const view = aView([checkpoint], [aBranch('main', 'k1')], 'main');
  const { checkpoint: list, branch } = offers({ kind: 'checkpoint', checkpoint }, view, {});
  const deeds = [...list, ...branch].map(({ deed }) => deed);
  expect(deeds).not.toContain('open');
  expect(deeds).not.toContain('compare');
  expect(deeds).not.toContain('restore');
});

test('the base is shared, and so not renamed', () => {
  const checkpoint = aCheckpoint('k0', null, 'main', 'base');
  const view = aView([checkpoint], [aBranch('main', 'k0')], 'main');
  const { checkpoint: list } = offers({ kind: 'checkpoint', checkpoint }, view, {});
  expect(list.filter(offer => !offer.can).map(({ deed }) => deed)).toEqual([
    'rename',
    'note',
    'pin'
  ]);
});

test('what is being done is not offered once more', () => {
  const list = tip('live');
  const all = { checkpoint: [], branch: [...list.values()], name: 'idea' };
  const left = withoutDoubles(all, [{ op: 'keep', branch: 'idea' }], 'idea').branch;
  expect(left.find(({ deed }) => deed === 'keep')).toMatchObject({ can: false });
  expect(withoutDoubles(all, [{ op: 'keep', branch: 'main' }], 'idea').branch).toEqual(all.branch);
});

test('forks are counted and named', () => {
  expect(readFork('3', '')).toEqual({ count: 3 });
  expect(readFork('2', 'ridge, forest')).toEqual({ count: 2, names: ['ridge', 'forest'] });
  expect(readFork('3', 'ridge')).toMatchObject({ hint: 'name each of them, or none' });
  expect(readFork('', '')).toHaveProperty('message');
  expect(readFork('2.5', '')).toHaveProperty('message');
});

test('whatever is thrown is told in words', () => {
  expect(refusalOf({ message: 'no', hint: 'try' })).toEqual({ message: 'no', hint: 'try' });
  expect(refusalOf(new Error('broken')).message).toBe('broken');
  expect(refusalOf(undefined).message).not.toBe('');
});

test('an outcome is one sentence, and names forks that did not come up', () => {
  const done = { total_ms: 110, checkpoint: { label: 'loaded' }, safety: { label: 'before-1' } };
  expect(outcome({ op: 'rollback', target: 'k1' }, done)).toBe(
    'Back at loaded in 110 ms. What was left is saved as before-1.'
  );
  const forks = {
    branches: [{ name: 'ridge' }],
    failures: [{ name: 'boost', message: 'no memory', hint: 'drop one' }]
  };
  expect(outcome({ op: 'fork', count: 2 }, forks)).toBe(
    'Forked: ridge. boost did not come up: no memory drop one'
  );
  const saved = { label: 'fork-1', kind: 'fork-point' };
  expect(outcome({ op: 'resume', name: 'main' }, { total_ms: 670, checkpoint: saved })).toBe(
    'main carries on in 670 ms, from fork-1: what came after that is lost.'
  );
  const paused = { label: 'paused-1', kind: 'paused' };
  expect(outcome({ op: 'resume', name: 'main' }, { checkpoint: paused })).toBe('main carries on.');
  expect(outcome({ op: 'keep', name: 'boost' }, {})).toBe('The notebook continues as boost.');
  const unparked = { failures: [{ name: 'main', message: 'the disk is full' }] };
  expect(outcome({ op: 'keep', name: 'boost' }, unparked)).toBe(
    'The notebook continues as boost. main could not be parked and runs on: the disk is full.'
  );
});
