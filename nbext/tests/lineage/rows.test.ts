// @vitest-environment node
import { expect, test } from 'vitest';
import { small } from '../../demo/sessions';
import { visible } from '../../src/lineage/folding';
import { place } from '../../src/lineage/layout';
import { wordsOf } from '../../src/lineage/rows';

test('a branch that is lent is called by the file that has it, wherever that is', () => {
  const view = small();
  const rows = visible(place(view.checkpoints, view.branches), new Map());
  const asides = rows.map(row => wordsOf(row, view).aside);
  expect(asides).toContain('open as forest.ipynb');
});
