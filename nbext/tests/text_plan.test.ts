import { expect, test } from 'vitest';
import { CUT, firstWords, isNothing, textPlan } from '../src/text_plan';

const cell = (id: string, source: string, type = 'code') => ({ id, source, type });
const ran = (id: string, source: string, count = 1) => ({ id, source, count });

test('a document that is as it was needs nothing', () => {
  const plan = textPlan([ran('a', 'x = 1')], [cell('a', 'x = 1')]);
  expect(isNothing(plan)).toBe(true);
});

test('a cell with another text is to be put back', () => {
  const plan = textPlan([ran('a', 'x = 1')], [cell('a', 'x = 2')]);
  expect(plan.changed).toEqual([{ id: 'a', now: 'x = 2', ran: 'x = 1' }]);
});

test('of a cell that ran twice the later text counts', () => {
  const plan = textPlan([ran('a', 'x = 1'), ran('a', 'x = 2', 2)], [cell('a', 'x = 2')]);
  expect(isNothing(plan)).toBe(true);
});

test('a cell that is gone belongs below the one that ran before it', () => {
  const plan = textPlan([ran('a', '1'), ran('b', '2'), ran('c', '3')], [cell('a', '1')]);
  expect(plan.missing).toEqual([
    { id: 'b', source: '2', after: 'a' },
    { id: 'c', source: '3', after: 'b' }
  ]);
});

test('a first cell that is gone belongs at the top', () => {
  const plan = textPlan([ran('a', '1'), ran('b', '2')], [cell('b', '2')]);
  expect(plan.missing).toEqual([{ id: 'a', source: '1', after: null }]);
});

test('a cell whose text is not on record to its end is counted and left alone', () => {
  const plan = textPlan(
    [ran('a', `DATA = "00${CUT}`), ran('b', `MORE = "00${CUT}`), ran('c', '3')],
    [cell('a', 'DATA = "0000"')]
  );
  expect(plan).toEqual({
    changed: [],
    missing: [{ id: 'c', source: '3', after: 'b' }],
    extra: 0,
    cut: 2
  });
});

test('cells that were not run then are counted and left alone', () => {
  const plan = textPlan(
    [ran('a', '1')],
    [cell('a', '1'), cell('n', 'new'), cell('t', 'T', 'markdown')]
  );
  expect(plan).toEqual({ changed: [], missing: [], extra: 1, cut: 0 });
});

test('a cell that has become text is left alone', () => {
  const plan = textPlan([ran('a', '1')], [cell('a', 'words', 'markdown')]);
  expect(isNothing(plan)).toBe(true);
});

test('what a console ran has no cell to be put back into', () => {
  expect(isNothing(textPlan([ran('', '1')], []))).toBe(true);
});

test('a cell is named by its first line that says something', () => {
  expect(firstWords('\n  x = 1\ny = 2')).toBe('x = 1');
  expect(firstWords('x'.repeat(80), 10)).toBe(`${'x'.repeat(9)}…`);
  expect(firstWords('')).toBe('');
});
