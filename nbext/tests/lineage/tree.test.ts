import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { aBranch, aCheckpoint, aView, many, moved, small } from '../../demo/sessions';
import type { Action, LineageService, LineageView, Told } from '../../src/lineage/facts';
import { LineageTree } from '../../src/lineage/tree';

let host: HTMLElement;
let tree: LineageTree;
let acted: Action[];
let settle: { resolve: (done?: unknown) => void; reject: (reason: unknown) => void };

const told: Told = { text: 'told', html: '<div><b>1 cell is undone</b></div>', record: {} };

function service(more: Partial<LineageService> = {}): LineageService {
  return {
    act: action => {
      acted.push(action);
      return new Promise((resolve, reject) => {
        settle = { resolve: (done = {}) => resolve(done as Record<string, unknown>), reject };
      });
    },
    ask: async () => told,
    ...more
  };
}

function start(view: LineageView, with_ = service()): void {
  tree = new LineageTree(host, with_);
  tree.show(view);
}

function row(key: string): HTMLElement {
  return found(`.bp-row[data-key="${key}"]`);
}

function found(selector: string): HTMLElement {
  const node = host.querySelector<HTMLElement>(selector);
  if (node === null) {
    throw new Error(`there is no ${selector}`);
  }
  return node;
}

function press(key: string, on: Element | null = document.activeElement): void {
  on?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}

function does(deed: string): HTMLButtonElement {
  return found(`.bp-offering:not([hidden]) [data-do="${deed}"]`) as HTMLButtonElement;
}

async function soon(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, 0));
}

beforeEach(() => {
  acted = [];
  host = document.createElement('div');
  document.body.append(host);
});

afterEach(() => {
  tree.dispose();
  host.remove();
  vi.useRealTimers();
});

test('there is one row for each checkpoint and each branch, and one is where you are', () => {
  start(small());
  expect(host.querySelectorAll('[role=treeitem]')).toHaveLength(12);
  const here = host.querySelectorAll('[aria-current=true]');
  expect(here).toHaveLength(1);
  expect(here[0]?.textContent).toContain('you are here');
  expect(row('b:boost').getAttribute('aria-selected')).toBe('true');
  expect(row('c:k3').getAttribute('aria-level')).toBe('3');
});

test('one row takes the keyboard, and arrows lead on from it', () => {
  start(small());
  expect(host.querySelectorAll('.bp-row[tabindex="0"]')).toHaveLength(1);
  tree.focus();
  expect(document.activeElement).toBe(row('b:boost'));
  press('Home');
  expect(document.activeElement).toBe(row('c:k0'));
  press('ArrowDown');
  press('ArrowLeft');
  expect(document.activeElement).toBe(row('c:k0'));
  press('ArrowRight');
  expect(document.activeElement).toBe(row('c:k1'));
  expect(row('c:k1').getAttribute('aria-selected')).toBe('true');
  expect(host.querySelectorAll('.bp-row[tabindex="0"]')).toHaveLength(1);
});

test('JupyterLab is told to keep its shortcuts off whatever has the focus', () => {
  start(small());
  row('c:k1').click();
  expect(row('c:k1').dataset['lmSuppressShortcuts']).toBe('true');
  does('fork').click();
  expect(document.activeElement?.tagName).toBe('INPUT');
  expect((document.activeElement as HTMLElement).dataset['lmSuppressShortcuts']).toBe('true');
});

test('Enter opens the actions, Escape closes them and gives the focus back', () => {
  start(small());
  row('c:k1').click();
  press('Enter');
  const items = [...host.querySelectorAll('[role=menuitem]')];
  expect(items[0]).toBe(document.activeElement);
  press('ArrowDown');
  expect(items[1]).toBe(document.activeElement);
  press('Escape');
  expect(host.querySelector('[role=menuitem]')).toBeNull();
  expect(document.activeElement).toBe(row('c:k1'));
});

test('a context menu acts on the row it was opened for', async () => {
  start(small());
  const event = new MouseEvent('contextmenu', { bubbles: true, cancelable: true });
  row('b:deep').dispatchEvent(event);
  expect(event.defaultPrevented).toBe(true);
  found('[role=menuitem][data-deed=switch]').click();
  expect(acted).toEqual([{ op: 'switch', name: 'deep' }]);
  settle.resolve();
  await soon();
  expect(found('[role=status]').textContent).toBe('The notebook continues as deep.');
});

test('a rollback is previewed, then confirmed, and twice clicked done once', async () => {
  start(small());
  row('c:k1').click();
  does('rollback').click();
  await soon();
  expect(found('.bp-told').textContent).toBe('1 cell is undone');
  expect(acted).toEqual([]);
  // Asked about boost, and agreed to when the notebook has gone on as another.
  tree.show({ ...small(), current: 'main' });
  found('.bp-go').click();
  found('.bp-go').click();
  expect(acted).toEqual([{ op: 'rollback', target: 'k1', branch: 'boost', safety: true }]);
  settle.resolve({ total_ms: 110, checkpoint: { label: 'loaded' } });
  await soon();
  expect(host.querySelector('.bp-sheet')).toBeNull();
  expect(found('.bp-message').textContent).toContain('Back at loaded in 110 ms.');
});

test('a preview that cannot be had does not keep anybody from going back', async () => {
  const ask = async (): Promise<never> => {
    throw { message: 'no kernel has it open', hint: 'start it' };
  };
  start(small(), service({ ask }));
  row('c:k1').click();
  does('rollback').click();
  await soon();
  expect(found('.bp-sheet .bp-refusal').textContent).toBe('no kernel has it openstart it');
  expect(found('.bp-go').textContent).toBe('Roll back without a preview');
});

test('a refusal is shown with its hint, and what was typed stays', async () => {
  start(small());
  row('c:k1').click();
  does('fork').click();
  const [count, names] = [...host.querySelectorAll<HTMLInputElement>('.bp-sheet .bp-input')];
  if (!count || !names) {
    throw new Error('there is nothing to fill in');
  }
  count.value = '2';
  names.value = 'ridge, main';
  found('.bp-go').click();
  expect(acted).toEqual([{ op: 'fork', count: 2, names: ['ridge', 'main'], start: 'k1' }]);
  settle.reject({ message: "'main' is taken", hint: 'choose another name' });
  await soon();
  tree.show(moved(small(), 1));
  expect(found('.bp-sheet .bp-refusal').textContent).toBe("'main' is takenchoose another name");
  expect(names.value).toBe('ridge, main');
  expect(names.isConnected).toBe(true);
});

test('a tip is forked as it is now, one without a machine from where it stands', async () => {
  start(small());
  for (const [key, wanted] of [
    ['b:boost', { op: 'fork', count: 2, branch: 'boost' }],
    ['b:ridge', { op: 'fork', count: 2, start: 'k3' }]
  ] as const) {
    row(key).click();
    does('fork').click();
    found('.bp-go').click();
    expect(acted.at(-1)).toEqual(wanted);
    settle.resolve();
    await soon();
  }
});

test('what cannot be done says why and does nothing', () => {
  start(small());
  row('b:lasso').click();
  expect(does('switch').getAttribute('aria-disabled')).toBe('true');
  expect(does('switch').title).toContain('dropped');
  does('switch').click();
  expect(acted).toEqual([]);
});

test('a refused switch is told on the desk until somebody has read it', async () => {
  start(small());
  row('b:deep').click();
  does('switch').click();
  settle.reject({ message: 'no room', hint: 'drop a branch' });
  await soon();
  expect(found('.bp-message[role=alert]').textContent).toContain('no roomdrop a branch');
  tree.focus();
  press('Escape');
  expect(found('.bp-message').hidden).toBe(true);
});

test('rename, note and pin go to the checkpoint that is selected', async () => {
  start(small());
  row('c:k1').click();
  does('rename').click();
  const label = found('.bp-sheet .bp-input') as HTMLInputElement;
  expect(label.value).toBe('loaded');
  label.value = 'all-loaded';
  found('.bp-go').click();
  settle.resolve();
  await soon();
  does('note').click();
  (found('.bp-sheet textarea') as HTMLTextAreaElement).value = 'ten minutes';
  found('.bp-go').click();
  settle.resolve();
  await soon();
  does('pin').click();
  expect(acted).toEqual([
    { op: 'annotate', checkpoint: 'k1', label: 'all-loaded' },
    { op: 'annotate', checkpoint: 'k1', note: 'ten minutes' },
    { op: 'pin', checkpoint: 'k1', pinned: true }
  ]);
});

test('Enter in a line does it, and in a longer text with Control', async () => {
  start(small());
  row('c:k1').click();
  does('rename').click();
  press('Enter');
  expect(acted.at(-1)).toEqual({ op: 'annotate', checkpoint: 'k1', label: 'loaded' });
  settle.resolve();
  await soon();
  does('note').click();
  press('Enter');
  expect(acted).toHaveLength(1);
  const both = { key: 'Enter', ctrlKey: true, bubbles: true };
  document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', both));
  expect(acted.at(-1)).toEqual({ op: 'annotate', checkpoint: 'k1', note: '' });
});

test('dropping asks first', () => {
  start(small());
  row('b:deep').click();
  does('drop').click();
  expect(acted).toEqual([]);
  found('.bp-go').click();
  expect(acted).toEqual([{ op: 'drop', names: ['deep'] }]);
});

test('rows keep their elements, the focus and the selection across updates', () => {
  const view = small();
  start(view);
  row('c:k1').click();
  const before = row('c:k1');
  const more = aCheckpoint('k9', 'k1', 'main', 'auto', 'auto-9');
  tree.show({ ...view, checkpoints: [...view.checkpoints, more] });
  expect(row('c:k1')).toBe(before);
  expect(document.activeElement).toBe(before);
  expect(before.getAttribute('aria-selected')).toBe('true');
  expect(row('c:k9').textContent).toContain('auto-9');
});

test('what is gone is taken out, and the selection with it goes to where you are', () => {
  const view = small();
  start(view);
  row('c:k4').click();
  tree.show({ ...view, checkpoints: view.checkpoints.filter(({ facts }) => facts.id !== 'k4') });
  expect(host.querySelector('[data-key="c:k4"]')).toBeNull();
  expect(row('b:boost').getAttribute('aria-selected')).toBe('true');
});

test('the selection goes along when the notebook goes on as another branch', () => {
  const view = small();
  start(view);
  tree.show({ ...view, current: 'deep' });
  expect(row('b:deep').getAttribute('aria-selected')).toBe('true');
  expect(row('b:deep').getAttribute('aria-current')).toBe('true');
  expect(found('[role=status]').textContent).toBe('The notebook is on deep now.');
});

test('a search finds labels, notes, branches and cells, and says how many', () => {
  start(small());
  const search = found('.bp-search') as HTMLInputElement;
  tree.focus();
  press('/');
  expect(document.activeElement).toBe(search);
  search.value = 'parked';
  search.dispatchEvent(new Event('input', { bubbles: true }));
  expect(found('.bp-count').textContent).toBe('3 of 12');
  expect(row('c:k3').className).toContain('bp-found');
  expect(row('c:k0').className).toContain('bp-dimmed');
  press('Enter', search);
  expect(host.querySelector('.bp-found[aria-selected=true]')).not.toBeNull();
  press('Escape', search);
  expect(search.value).toBe('');
  expect(host.querySelector('.bp-dimmed')).toBeNull();
});

test('runs fold and unfold by click and by key, and the focus is not lost', () => {
  start(many(300));
  const runs = (): HTMLElement[] => [...host.querySelectorAll<HTMLElement>('.bp-run')];
  const all = host.querySelectorAll('.bp-row').length;
  found('[data-do=fold-all]').click();
  expect(host.querySelectorAll('.bp-row').length).toBeLessThan(all);
  const first = runs()[0];
  first?.click();
  expect(first?.getAttribute('aria-expanded')).toBe('true');
  press('-');
  expect(first?.getAttribute('aria-expanded')).toBe('false');
  expect(document.activeElement).toBe(first);
  found('[data-do=unfold-all]').click();
  expect(runs().every(each => each.getAttribute('aria-expanded') === 'true')).toBe(true);
});

test('something under way turns beside its branch and has a running clock', () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 30, 9, 0, 5) });
  start(small());
  const since = new Date(Date.UTC(2026, 10, 30, 9, 0, 5)).toISOString();
  tree.show({ ...small(), under_way: [{ op: 'rollback', branch: 'boost', since }] });
  expect(row('b:boost').getAttribute('aria-busy')).toBe('true');
  expect(found('.bp-status-words').textContent).toBe('rolling back boost');
  vi.advanceTimersByTime(2300);
  expect(found('.bp-clock').textContent).toBe('2.2 s');
  tree.show(small());
  expect(row('b:boost').hasAttribute('aria-busy')).toBe(false);
  expect(found('.bp-clock').textContent).toBe('');
  expect(vi.getTimerCount()).toBe(0);
});

test('the table has all of it in words', () => {
  start(small());
  found('[data-do=table]').click();
  const tables = [...host.querySelectorAll('table')];
  expect(tables.map(table => table.caption?.textContent)).toEqual([
    'Branches, in order of making',
    'Checkpoints, oldest first',
    'What was done, the newest first'
  ]);
  expect(tables[0]?.tBodies[0]?.rows).toHaveLength(7);
  expect(tables[1]?.tBodies[0]?.rows[3]?.textContent).toContain('saved when parked');
  expect(tables[0]?.textContent).toContain('you are here');
  tree.show({ ...small(), branches: small().branches.slice(0, 4) });
  expect(tables[0]?.tBodies[0]?.rows).toHaveLength(4);
});

test('a widget of a closed session says where it was', () => {
  const checkpoints = [aCheckpoint('k0', null, 'main')];
  start(aView(checkpoints, [aBranch('main', 'k0', 'paused')], 'main', { owner: null }));
  expect(row('b:main').textContent).toContain('last here');
});

test('a session in which nothing was saved says so', () => {
  start(aView([], [], null));
  expect(found('.bp-empty').hidden).toBe(false);
});

test('fifty updates leave no nodes behind, and none of what was listened to', () => {
  const added = vi.spyOn(EventTarget.prototype, 'addEventListener');
  start(many(60));
  const nodes = host.querySelectorAll('*').length;
  const listened = added.mock.calls.length;
  for (let tick = 1; tick <= 50; tick += 1) {
    tree.show(moved(many(60), tick));
  }
  expect(host.querySelectorAll('*').length).toBe(nodes);
  expect(added.mock.calls.length).toBe(listened);
  added.mockRestore();
  tree.dispose();
  expect(host.childElementCount).toBe(0);
});

test('what comes back after the tree has gone is not shown anywhere', async () => {
  start(small());
  row('b:deep').click();
  does('switch').click();
  tree.dispose();
  settle.reject({ message: 'too late', hint: '' });
  await soon();
  expect(document.body.textContent).not.toContain('too late');
});

test('two trees in a page share their styles', () => {
  start(small());
  const other = new LineageTree(host, service());
  other.show(small());
  expect(document.querySelectorAll('style[data-branchpoint=lineage]')).toHaveLength(1);
  other.dispose();
});
