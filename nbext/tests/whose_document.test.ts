import { expect, test } from 'vitest';
import type { BranchState, BranchView } from '../src/lineage/facts';
import { documentOf, notebookOf } from '../src/whose_document';

const own = { view: { session: 's', key: '/home/a.ipynb' } };
const lent = { view: { session: 't', key: '/home/a-ridge.ipynb' } };
const other = { view: { session: 'u', key: '/home/b.ipynb' } };
const plain = { view: null };
const all = [plain, other, lent, own];
const session = { session: 's', current: 'main' };

function branch(name: string, state: BranchState, lentTo = ''): BranchView {
  return { facts: { name, state }, lent_to: lentTo } as BranchView;
}

test("a session's own notebook shows the branch that it is on", () => {
  expect(documentOf(all, session, branch('main', 'live'))).toBe(own);
});

test('no notebook shows a branch that its session is not on', () => {
  expect(documentOf(all, session, branch('ridge', 'live'))).toBeNull();
});

test('a branch that was lent is shown by the notebook that carries it on', () => {
  expect(documentOf(all, session, branch('ridge', 'lent', '/home/a-ridge.ipynb'))).toBe(lent);
});

test('a branch that was lent to a notebook that is not open here is shown by none', () => {
  expect(documentOf(all, session, branch('ridge', 'lent', '/home/gone.ipynb'))).toBeNull();
});

test('a notebook that has no session shows no branch', () => {
  expect(documentOf([plain], session, branch('main', 'live'))).toBeNull();
});

test('what is asked about a session is about its notebook, whichever is in front', () => {
  expect(notebookOf({ all, current: other }, 's')).toBe(own);
  expect(notebookOf({ all, current: other }, 'gone')).toBeNull();
});

test('what is asked about no session is about the notebook in front', () => {
  expect(notebookOf({ all, current: other }, undefined)).toBe(other);
});
