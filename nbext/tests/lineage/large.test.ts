import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { aBranch, aCheckpoint, aView } from '../../demo/sessions';
import type { BranchState, CheckpointView, LineageView } from '../../src/lineage/facts';
import { withFigures } from '../../src/lineage/figures';
import { foldedLine, linesAtRest, MANY_ROWS, visible } from '../../src/lineage/folding';
import { place, wentBack } from '../../src/lineage/layout';
import { LineageTree } from '../../src/lineage/tree';

const LINE = 5;

/** A session with forty branches off one line, most of them at rest: over three hundred rows. */
function large(states: Record<string, BranchState> = {}): LineageView {
  const checkpoints: CheckpointView[] = [aCheckpoint('k0', null, 'main', 'base', 'base')];
  const branches = [];
  for (let number = 1; number <= 40; number += 1) {
    const name = `idea-${number}`;
    checkpoints.push(aCheckpoint(`m${number}`, `k${number - 1}`, 'main', 'user', `step-${number}`));
    checkpoints.push(aCheckpoint(`k${number}`, `m${number}`, 'main', 'fork-point', `f-${number}`));
    let parent = `k${number}`;
    for (let saved = 1; saved <= LINE; saved += 1) {
      const id = `b${number}-${saved}`;
      checkpoints.push(aCheckpoint(id, parent, name, 'user', `try-${number}-${saved}`));
      parent = id;
    }
    branches.push(aBranch(name, parent, states[name] ?? 'parked'));
  }
  const main = aBranch('main', 'k40');
  branches.push({ ...main, facts: { ...main.facts, current: true } });
  return aView(checkpoints, branches, 'main');
}

let host: HTMLElement;
let tree: LineageTree;

beforeEach(() => {
  host = document.createElement('div');
  document.body.append(host);
  tree = new LineageTree(host, {
    act: () => new Promise(() => {}),
    ask: () => new Promise(() => {})
  });
});

afterEach(() => {
  tree.dispose();
  host.remove();
});

function row(key: string): HTMLElement | null {
  return host.querySelector(`.bp-row[data-key="${key}"]`);
}

function press(does: string): void {
  host.querySelector<HTMLElement>(`[data-do="${does}"]`)?.click();
}

function count(): number {
  return host.querySelectorAll('.bp-row').length;
}

test('lines at rest of a large session are one row each at first, called by their branch', () => {
  tree.show(large());
  expect(count()).toBe(1 + 40 * 3 + 1);
  const folded = row('c:b7-1');
  expect(folded?.querySelector('.bp-title')?.textContent).toBe('idea-7');
  expect(folded?.querySelector('.bp-aside')?.textContent).toBe('parked \u00b7 5 rows folded away');
  expect(folded?.getAttribute('aria-expanded')).toBe('false');
  expect(folded?.getAttribute('aria-label')).toContain('branch idea-7');
  expect(row('b:idea-7')).toBeNull();
  folded?.querySelector<HTMLElement>('.bp-twisty')?.click();
  expect(row('b:idea-7')).not.toBeNull();
  expect(row('c:b7-1')?.querySelector('.bp-title')?.textContent).toBe('try-7-1');
  press('unfold-all');
  expect(count()).toBe(1 + 40 * (2 + LINE + 1) + 1);
});

test('a line on which something goes on, or was lost, stays in sight', () => {
  tree.show(large({ 'idea-3': 'live', 'idea-4': 'lost', 'idea-5': 'lent', 'idea-6': 'paused' }));
  for (const name of ['idea-3', 'idea-4', 'idea-5']) {
    expect(row(`b:${name}`)).not.toBeNull();
  }
  expect(row('b:idea-6')).toBeNull();
});

test('nothing folds by itself once it is looked at, and a small session not at all', () => {
  tree.show(large({ 'idea-3': 'live' }));
  const before = count();
  tree.show(large());
  expect(count()).toBe(before);
  const small = large().checkpoints.slice(0, MANY_ROWS / 2);
  expect(linesAtRest(place(small, [aBranch('main', 'k1')]))).toEqual([]);
});

test('a search finds what is folded away, and where one is is never folded', () => {
  tree.show(large());
  const search = host.querySelector<HTMLInputElement>('.bp-search');
  if (search === null) {
    throw new Error('there is no search');
  }
  search.value = 'try-9-4';
  search.dispatchEvent(new Event('input', { bubbles: true }));
  expect(row('c:b9-4')?.classList.contains('bp-found')).toBe(true);
  expect(host.querySelector('.bp-count')?.textContent).toMatch(/^1 of /);
  expect(row('b:main')?.getAttribute('aria-current')).toBe('true');
});

test('a row for a folded line is known by its branch, and no other row is', () => {
  const { checkpoints, branches } = large();
  const placed = place(checkpoints, branches);
  const folds = new Map(linesAtRest(placed).map(key => [key, true]));
  const rows = visible(placed, folds);
  expect(rows.filter(each => foldedLine(each) !== null)).toHaveLength(40);
  expect(visible(placed, new Map()).some(each => foldedLine(each) !== null)).toBe(false);
});

test('the end of a counted name is kept where there is no room for all of it', () => {
  tree.show(large());
  const title = row('c:m12')?.querySelector('.bp-title');
  expect([...(title?.children ?? [])].map(each => each.textContent)).toEqual(['step', '-12']);
  expect(row('b:main')?.querySelector('.bp-title')?.textContent).toBe('main');
});

test('a notebook has gone back if it is on a checkpoint that there was before', () => {
  const view = large();
  const at = (head: string): LineageView => ({
    ...view,
    branches: view.branches.map(each =>
      each.facts.current ? { ...each, facts: { ...each.facts, head } } : each
    )
  });
  expect(wentBack(view, at('m3'))).toBe(true);
  expect(wentBack(view, at('k40'))).toBe(false);
  expect(wentBack(view, at('made-since'))).toBe(false);
});

test('where one is comes into sight at first and after going back, never for figures', () => {
  const scroll = host.querySelector<HTMLElement>('.bp-scroll');
  if (scroll === null) {
    throw new Error('nothing scrolls');
  }
  vi.spyOn(scroll, 'clientHeight', 'get').mockReturnValue(280);
  const view = large();
  tree.show(view);
  expect(scroll.scrollTop).toBeGreaterThan(2000);
  scroll.scrollTop = 56;
  scroll.dispatchEvent(new Event('scroll'));
  for (let moved = 1; moved < 5; moved += 1) {
    const figures = { lived_s: moved, requests: 0, sent_bytes: 0, received_bytes: 0 };
    const spent = { tokens_in: 0, tokens_out: 0, micros: 0 };
    const memory = { own_bytes: 1e8 + moved * 1e6, shared_bytes: 0 };
    tree.show(withFigures(view, { main: { ...figures, ...spent, ...memory } }));
    expect(row('b:main')?.querySelector('.bp-first')?.textContent).toBe(`${100 + moved} MB own`);
  }
  expect(scroll.scrollTop).toBe(56);
  const branches = view.branches.map(each =>
    each.facts.current ? { ...each, facts: { ...each.facts, head: 'm30' } } : each
  );
  tree.show({ ...view, branches });
  expect(scroll.scrollTop).toBeGreaterThan(56);
});

test('an update of figures writes to the rows that have any, and to no other', async () => {
  const view = large();
  tree.show(view);
  const records: MutationRecord[] = [];
  const observer = new MutationObserver(list => records.push(...list));
  observer.observe(host.querySelector('.bp-tree') as Node, {
    subtree: true,
    childList: true,
    characterData: true,
    attributes: true
  });
  const branches = view.branches.map(each =>
    each.facts.current ? { ...each, facts: { ...each.facts, own_bytes: 7e7 } } : each
  );
  tree.show({ ...view, branches });
  tree.show({ ...view, branches });
  await Promise.resolve();
  observer.disconnect();
  const rows = records.map(({ target }) => (target as Element).closest?.('.bp-row'));
  expect(new Set(rows)).toEqual(new Set([row('b:main')]));
});
