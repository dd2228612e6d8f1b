import { expect, test } from 'vitest';
import type { BranchFacts, BranchView, LineageView } from '../src/lineage/facts';
import { currentBranch, memoryWords, sessionState, stateSentence, wayBack } from '../src/words';

const branch = (facts: Partial<BranchFacts> = {}): BranchFacts => ({
  name: 'main',
  state: 'live',
  current: true,
  index: 0,
  parent: null,
  origin: 'c0',
  head: 'c0',
  head_label: 'loaded',
  created_at: '2026-11-30T08:00:00Z',
  own_bytes: 9_200_000,
  shared_bytes: 412_000_000,
  awake_ms: 90,
  busy: false,
  ...facts
});

const view = (changes: Partial<LineageView> = {}, facts: BranchFacts = branch()): LineageView => ({
  version: 1,
  session: 's',
  key: '/work/a.ipynb',
  created_at: '2026-11-30T08:00:00Z',
  owner: 'kernel',
  current: 'main',
  checkpoints: [],
  branches: [{ facts } as BranchView],
  operations: [],
  currency: '',
  under_way: [],
  line: [],
  left: [],
  died: [],
  ...changes
});

test('a live machine is idle or running', () => {
  expect(sessionState(view())).toBe('idle');
  expect(sessionState(view({}, branch({ busy: true })))).toBe('running');
});

test('what is under way comes before how the machine is', () => {
  const since = '2026-11-30T08:00:00Z';
  const doing = view({ under_way: [{ op: 'rollback', branch: 'main', since }] });
  expect(sessionState(doing)).toBe('rolling back main');
});

test('a paused branch is paused, and a closed session closed whatever its branches were', () => {
  const paused = branch({ state: 'paused', own_bytes: null });
  expect(sessionState(view({}, paused))).toBe('paused');
  expect(sessionState(view({ owner: null }, paused))).toBe('closed');
});

test('a session on no branch says so', () => {
  const none = view({ current: null });
  expect(currentBranch(none)).toBeNull();
  expect(sessionState(none)).toBe('on no branch');
  expect(stateSentence(none)).toBe('Branchpoint: on no branch');
});

test('memory is what is its own and what it shares, and none without a machine', () => {
  expect(memoryWords(branch())).toBe('9.2 MB own, 412 MB shared');
  expect(memoryWords(branch({ own_bytes: null }))).toBe('no machine');
});

test('the sentence has branch, state and memory', () => {
  expect(stateSentence(view())).toBe(
    'Branch main: idle. Machine memory: 9.2 MB own, 412 MB shared.'
  );
});

test('a branch comes back once its notebook is closed, where that ends the kernel', () => {
  expect(wayBack(false)).toBe('Close it, and the branch is here again.');
});

test('where closing a page ends no kernel, what does is named', () => {
  expect(wayBack(true)).toContain(
    'Close and Shut Down Notebook there, and the branch is here again.'
  );
});
