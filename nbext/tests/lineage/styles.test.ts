import { afterEach, expect, test, vi } from 'vitest';

const ours = (): NodeListOf<Element> =>
  document.querySelectorAll('style[data-branchpoint="lineage"]');

afterEach(() => {
  ours().forEach(each => each.remove());
  vi.resetModules();
});

test('copies of the module share one style in a page', async () => {
  for (let copy = 0; copy < 3; copy += 1) {
    vi.resetModules();
    const { ensureStyles } = await import('../../src/lineage/styles');
    ensureStyles(document.body);
    ensureStyles(document.body);
  }
  expect(ours()).toHaveLength(1);
});

test('another version has a style of its own', async () => {
  const older = document.createElement('style');
  older.dataset['branchpoint'] = 'lineage';
  older.textContent = '.bp-lineage { color: red }';
  document.head.append(older);
  const { ensureStyles } = await import('../../src/lineage/styles');
  ensureStyles(document.body);
  expect(ours()).toHaveLength(2);
});

test('a shadow root has the styles inside', async () => {
  const root = document.createElement('div').attachShadow({ mode: 'open' });
  const inner = document.createElement('div');
  root.append(inner);
  const { ensureStyles } = await import('../../src/lineage/styles');
  ensureStyles(inner);
  expect(root.querySelectorAll('style')).toHaveLength(1);
  expect(ours()).toHaveLength(0);
});
