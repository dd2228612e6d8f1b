// @vitest-environment node
import { expect, test } from 'vitest';
import * as say from '../../src/lineage/formats';

test('sizes are those of the picture', () => {
  expect([38_200_000, 3_000_000_000, 200_000, 900].map(say.size)).toEqual([
    '38 MB',
    '3.0 GB',
    '0.2 MB',
    '1 kB'
  ]);
});

test('durations are those of the kernel', () => {
  expect([46.2, 1840, 104_000].map(say.duration)).toEqual(['46 ms', '1.84 s', '104 s']);
});

test('what took no time is a dash', () => {
  expect(say.milliseconds(0)).toBe('\u2013');
  expect(say.milliseconds(1976.4)).toBe('1,976 ms');
});

test('a clock shows tenths at first, then seconds, then minutes', () => {
  expect([0, 1290, 12_900, 125_000].map(say.elapsed)).toEqual([
    '0.0 s',
    '1.2 s',
    '12 s',
    '2 min 05 s'
  ]);
});

test('a life is told in seconds, minutes or hours', () => {
  expect([40, 754, 11_100].map(say.lived)).toEqual(['40 s', '13 min', '3 h 05 min']);
});

test('money of small calls is not rounded away', () => {
  expect(say.money(12_345, 'USD')).toBe('0.0123 USD');
  expect(say.money(0, 'USD')).toBe('0.00 USD');
  expect(say.money(2_500_000, '')).toBe('2.50');
});

test('a moment of another day has its day', () => {
  const now = new Date(2026, 10, 30, 12);
  expect(say.when(new Date(2026, 10, 30, 9, 5, 7).toISOString(), now)).toBe('09:05:07');
  expect(say.when(new Date(2026, 10, 29, 9, 5, 7).toISOString(), now)).toBe('29 Nov, 09:05:07');
  expect(say.when(new Date(2025, 0, 2, 9, 5, 7).toISOString(), now)).toBe('2 Jan 2025, 09:05:07');
  expect(say.when('soon', now)).toBe('soon');
});

test('phases are words', () => {
  expect(say.phaseWords('guest-find-pages')).toBe('guest: find pages');
  expect(say.phasesOf({ freeze: 11, copy: 0 })).toEqual([['freeze', 11]]);
});

test('a summary says of how many operations it is, once there may be more of them', () => {
  const done = Array.from({ length: say.MOST_OPERATIONS }, () => ({ op: 'fork', total_ms: 3 }));
  expect(say.summary(done.slice(1))).toBe('199 \u00d7 fork 3 ms');
  expect(say.summary(done)).toBe('newest 200: 200 \u00d7 fork 3 ms');
});

test('a summary has medians', () => {
  const done = [1, 9, 3].map(total_ms => ({ op: 'fork', total_ms }));
  expect(say.summary(done)).toBe('3 \u00d7 fork 3 ms');
  expect(say.summary([...done, { op: 'keep', total_ms: 956 }])).toBe(
    '3 \u00d7 fork 3 ms \u00b7 keep 956 ms'
  );
});
