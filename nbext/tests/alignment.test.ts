import { describe, expect, test } from 'vitest';
import { alignCells, alignLines, alignWords, joined, matches } from '../src/alignment';
import type { CellText } from '../src/lineage/facts';

const run = (id: string, count: number, source: string): CellText => ({ id, count, source });

const begun = [run('a', 1, 'import numpy'), run('b', 2, 'x = load()')];

/** What an alignment says, in few words. */
function told(left: CellText[], right: CellText[]): string[] {
  return alignCells(left, right).map(
    ({ kind, left: ours, right: theirs }) => `${kind} ${ours?.count ?? '-'} ${theirs?.count ?? '-'}`
  );
}

describe('cells', () => {
  test('runs that both lines of work began with are common', () => {
    expect(told(begun, begun)).toEqual(['common 1 1', 'common 2 2']);
  });

  test('a cell that ran in each with the same source is the same, not common', () => {
    const left = [...begun, run('c', 3, 'fit()')];
    const right = [...begun, run('c', 4, 'fit()')];
    expect(told(left, right).slice(2)).toEqual(['same 3 4']);
  });

  test('a cell that ran in both branches at once is not common', () => {
    const both = [...begun, run('', 3, 'fit(branch.name)')];
    const kinds = alignCells(both, both, begun.length).map(({ kind }) => kind);
    expect(kinds).toEqual(['common', 'common', 'same']);
  });

  test('a cell that ran with another source is changed, however different it is', () => {
    const left = [...begun, run('c', 3, 'ridge = Ridge(alpha=1)')];
    const right = [...begun, run('c', 3, 'print("nothing of the kind")')];
    expect(told(left, right).slice(2)).toEqual(['changed 3 3']);
  });

  test('cells of different documents that say nearly the same are one that was changed', () => {
    const left = [run('p', 3, 'model = Ridge(alpha=1)\nmodel.fit(x, y)')];
    const right = [run('q', 3, 'model = Ridge(alpha=10)\nmodel.fit(x, y)')];
    expect(told(left, right)).toEqual(['changed 3 3']);
  });

  test('cells that have nothing to do with each other stand alone, the left ones first', () => {
    const left = [run('p', 3, 'plot(x)')];
    const right = [run('q', 3, 'os.remove(path)')];
    expect(told(left, right)).toEqual(['left 3 -', 'right - 3']);
  });

  test('a cell that was put between two is of one side alone', () => {
    const left = [...begun, run('d', 3, 'fit()')];
    const right = [...begun, run('c', 3, 'scale(x)'), run('d', 4, 'fit()')];
    expect(told(left, right).slice(2)).toEqual(['right - 3', 'same 3 4']);
  });

  test('each side keeps its order, and no cell is lost', () => {
    const left = ['b', 'a', 'c', 'x'].map((source, at) => run(source, at, source));
    const right = ['a', 'b', 'y', 'c'].map((source, at) => run(source, at, source));
    const pairs = alignCells(left, right);
    expect(pairs.flatMap(pair => pair.left ?? [])).toEqual(left);
    expect(pairs.flatMap(pair => pair.right ?? [])).toEqual(right);
  });

  test('cells without a place in a document are not taken for each other', () => {
    expect(told([run('', 3, 'plot(x)')], [run('', 3, 'y')])).toEqual(['left 3 -', 'right - 3']);
  });

  test('a source with a word that objects have of themselves is read as any other', () => {
    const left = [run('p', 1, 'constructor = __proto__')];
    const right = [run('q', 1, 'constructor = __proto__ + 1')];
    expect(told(left, right)).toEqual(['changed 1 1']);
  });

  test('one empty side leaves all cells to the other', () => {
    expect(told([], begun)).toEqual(['right - 1', 'right - 2']);
  });
});

describe('a branch that another session carries on', () => {
  const since = [run('e', 3, 'more()')];

  test('has its beginning before what that session tells', () => {
    expect(joined(begun, since)).toEqual([...begun, ...since]);
  });

  test('has its beginning once where that session tells it as well', () => {
    expect(joined(begun, [...begun, ...since])).toEqual([...begun, ...since]);
  });
});

describe('lines', () => {
  const kinds = (left: string, right: string): string[] =>
    alignLines(left, right).map(({ kind }) => kind);

  test('of equal sources are all the same', () => {
    expect(kinds('a\nb', 'a\nb')).toEqual(['same', 'same']);
  });

  test('that were added stand alone', () => {
    expect(kinds('a()\nc()', 'a()\nb = 1\nc()')).toEqual(['same', 'right', 'same']);
  });

  test('that were changed are on one row, and only what differs is marked', () => {
    expect(alignLines('model = Ridge(alpha=1)', 'model = Ridge(alpha=10)')).toEqual([
      {
        kind: 'changed',
        left: [
          { text: 'model = Ridge(alpha=', marked: false },
          { text: '1', marked: true },
          { text: ')', marked: false }
        ],
        right: [
          { text: 'model = Ridge(alpha=', marked: false },
          { text: '10', marked: true },
          { text: ')', marked: false }
        ]
      }
    ]);
  });

  test('keep every character', () => {
    const [left, right] = alignWords('  é = f("ü 1")\t', 'e=f()');
    expect(left.map(({ text }) => text).join('')).toBe('  é = f("ü 1")\t');
    expect(right.map(({ text }) => text).join('')).toBe('e=f()');
  });
});

describe('a longest common subsequence', () => {
  const common = (left: string, right: string): string =>
    matches(left.length, right.length, (i, j) => left[i] === right[j])
      .map(([i]) => left[i])
      .join('');

  test('is as long as it can be', () => {
    expect(common('abcbdab', 'bdcaba')).toHaveLength(4);
  });

  test('of what has nothing in common is empty', () => {
    expect(common('abc', 'xyz')).toBe('');
  });

  test('of far too much is what both ends have in common', () => {
    const many = (sign: string): string => `a${sign.repeat(3000)}z`;
    expect(common(many('b'), many('c'))).toBe('az');
  });
});
