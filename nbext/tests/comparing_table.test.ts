import { afterEach, beforeEach, expect, test } from 'vitest';
import { CellsTable, type Compared, type Outputs, type Side } from '../src/comparing_table';
import type { CellText } from '../src/lineage/facts';

const run = (id: string, count: number, source: string): CellText => ({ id, count, source });
const begun = [run('a', 1, 'import numpy'), run('b', 2, 'x = load()')];

/** Outputs that are known for some runs of each side. */
class Known implements Outputs {
  constructor(private readonly texts: Record<string, string> = {}) {}

  draw(side: Side, { count }: CellText, place: HTMLElement): boolean {
    const text = this.texts[`${side} ${count}`];
    place.textContent = text ?? '';
    return text !== undefined;
  }

  differ(left: CellText, right: CellText): boolean {
    const [ours, theirs] = [`left ${left.count}`, `right ${right.count}`];
    return ours in this.texts && theirs in this.texts && this.texts[ours] !== this.texts[theirs];
  }
}

function table(left: CellText[], right: CellText[], outputs = new Known()): CellsTable {
  const branch = (name: string, cells: CellText[]): Compared => ({ name, words: 'live', cells });
  const made = new CellsTable(branch('ridge', left), branch('forest', right), outputs);
  document.body.append(made.node);
  return made;
}

const all = (selector: string): HTMLElement[] => [
  ...document.querySelectorAll<HTMLElement>(selector)
];
const texts = (selector: string): (string | null)[] => all(selector).map(node => node.textContent);

beforeEach(() => {
  // jsdom lays nothing out.
  Element.prototype.scrollIntoView = () => undefined;
});

afterEach(() => document.body.replaceChildren());

test('the caption counts what is alike and what is not', () => {
  table([...begun, run('c', 3, 'a = 1')], [...begun, run('c', 3, 'a = 2'), run('d', 4, 'more()')]);
  expect(texts('caption')).toEqual([
    '2 cells in common, 0 the same, 1 changed, 0 in ridge alone, 1 in forest alone.'
  ]);
});

test('each branch heads its column', () => {
  table(begun, begun);
  expect(texts('th[scope=col] > span:first-child')).toEqual(['ridge', 'forest']);
});

test('what both began with is folded until somebody asks for it', () => {
  table([...begun, run('c', 3, 'a = 1')], begun);
  const toggle = all('.bp-Compare-toggle')[0];
  expect(toggle?.ariaExpanded ?? toggle?.getAttribute('aria-expanded')).toBe('false');
  expect(texts('code')).toEqual(['a = 1']);
  toggle?.click();
  expect(toggle?.getAttribute('aria-expanded')).toBe('true');
  expect(texts('code')).toEqual([
    'import numpy',
    'import numpy',
    'x = load()',
    'x = load()',
    'a = 1'
  ]);
  toggle?.click();
  expect(all('tbody[data-kind=common]').every(body => body.hidden)).toBe(true);
});

test('of a changed line only what differs is marked, on its own side', () => {
  table([run('c', 3, 'f(x, 1)\nsame()')], [run('c', 3, 'f(x, 22)\nsame()')]);
  expect(texts('del')).toEqual(['1']);
  expect(texts('ins')).toEqual(['22']);
});

test('a sign has its meaning in words for whoever listens', () => {
  table([run('c', 3, 'left()')], [run('d', 3, 'os.remove(path)')]);
  expect(texts('th[scope=rowgroup] .bp-aloud')).toEqual(['in ridge alone', 'in forest alone']);
  expect(all('th[scope=rowgroup] [aria-hidden=true]')).toHaveLength(2);
});

test('a source is shown as text, whatever is in it', () => {
  table([run('c', 3, '<img src=x onerror=alert(1)>')], []);
  expect(all('img')).toEqual([]);
  expect(texts('code')).toEqual(['<img src=x onerror=alert(1)>']);
});

test('outputs stand below the sources, and a pair without any has no row for them', () => {
  const left = [run('c', 3, 'a'), run('d', 4, 'b')];
  table(left, [run('c', 5, 'a')], new Known({ 'left 3': 'seven' }));
  expect(texts('.bp-Compare-outputs td')).toEqual(['seven', '']);
});

test('cells of the same source whose outputs differ count as a difference', () => {
  const left = [run('c', 3, 'score()')];
  const right = [run('c', 4, 'score()')];
  table(left, right, new Known({ 'left 3': '0.8', 'right 4': '0.9' }));
  expect(all('tbody[data-differs]')).toHaveLength(1);
  expect(texts('th[scope=rowgroup] .bp-aloud')).toEqual(['same source, other outputs']);
});

test('going through the differences comes around at both ends', () => {
  const [same, other] = [run('s', 5, 'same()'), run('t', 6, 'other()')];
  const made = table([run('c', 3, 'a = 1'), same, other], [run('c', 3, 'a = 2'), same]);
  const at = (): string | undefined => (document.activeElement as HTMLElement).dataset['kind'];
  const steps = ([1, 1, 1, -1] as const).map(by => {
    made.step(by);
    return at();
  });
  expect(steps).toEqual(['changed', 'left', 'changed', 'left']);
});

test('where nothing differs there is nowhere to go', () => {
  expect(table(begun, begun).step(1)).toBe(false);
});
