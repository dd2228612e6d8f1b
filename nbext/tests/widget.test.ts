import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { aCheckpoint, small } from '../demo/sessions';
import type { LineageView, PageDeeds } from '../src/lineage/facts';
import { offerDeeds } from '../src/page_deeds';
import widget from '../src/widget';
import { KernelLineage, type WidgetModel } from '../src/widget_service';
import { Still } from '../src/widget_still';

type Heard = (...told: unknown[]) => void;

/** A widget's model, as anywidget hands it over. */
class FakeModel {
  readonly sent: Record<string, unknown>[] = [];
  readonly state: Record<string, unknown>;
  widget_manager: unknown = undefined;
  private readonly hearing = new Map<string, Set<Heard>>();

  constructor(view: LineageView = small()) {
    this.state = { view, figures: {} };
  }

  get(name: string): never {
    return this.state[name] as never;
  }

  set(name: string, value: unknown): void {
    this.state[name] = value;
    this.tell(`change:${name}`);
  }

  on(event: string, heard: Heard): void {
    this.hearing.set(event, (this.hearing.get(event) ?? new Set()).add(heard));
  }

  off(event: string, heard: Heard): void {
    this.hearing.get(event)?.delete(heard);
  }

  send(content: Record<string, unknown>): void {
    this.sent.push(content);
  }

  tell(event: string, ...told: unknown[]): void {
    for (const heard of this.hearing.get(event) ?? []) {
      heard(...told);
    }
  }

  get listeners(): number {
    return [...this.hearing.values()].reduce((sum, heard) => sum + heard.size, 0);
  }

  get model(): WidgetModel {
    return this as unknown as WidgetModel;
  }
}

/** Deeds of a page that note what was asked of them. */
function noting(asked: string[]): (session: string) => PageDeeds {
  const note =
    (deed: string) =>
    async (...about: string[]): Promise<boolean> => {
      asked.push([deed, ...about].join(' '));
      return true;
    };
  return session => ({
    openBranch: note(`open ${session}`),
    compareBranches: note(`compare ${session}`),
    restoreText: note(`restore ${session}`)
  });
}

/** The deeds that are offered for the row of that key. */
function offeredFor(key: string): string[] {
  el.querySelector<HTMLElement>(`.bp-row[data-key="${key}"]`)?.click();
  const buttons = el.querySelectorAll<HTMLElement>('.bp-offering:not([hidden]) [data-do]');
  return [...buttons].map(({ dataset }) => dataset['do'] ?? '');
}

let el: HTMLElement;
let seen: ((entries: { isIntersecting: boolean }[]) => void)[];

beforeEach(() => {
  seen = [];
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(heard: (entries: { isIntersecting: boolean }[]) => void) {
        seen.push(heard);
      }
      observe(): void {}
      disconnect(): void {}
    }
  );
  el = document.createElement('div');
  document.body.append(el);
});

afterEach(() => {
  offerDeeds([], noting([]));
  el.remove();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('an answer goes to what was asked, whatever comes before it', async () => {
  const fake = new FakeModel();
  const service = new KernelLineage(fake.model);
  const [first, second] = [service.act({ op: 'switch', name: 'a' }), service.act({ op: 'pause' })];
  const [one, two] = fake.sent;
  expect(one).toMatchObject({ op: 'switch', name: 'a' });
  fake.tell('msg:custom', { id: 'of another page', done: {} });
  fake.tell('msg:custom', { id: two?.['id'], done: { n: 2 } });
  fake.tell('msg:custom', { id: one?.['id'], done: { n: 1 } });
  expect(await first).toEqual({ n: 1 });
  expect(await second).toEqual({ n: 2 });
});

test('what is refused is refused in the words that came', async () => {
  const fake = new FakeModel();
  const service = new KernelLineage(fake.model);
  const asked = service.act({ op: 'drop', names: ['main'] });
  const refused = { message: 'that is the current branch', hint: 'switch first' };
  fake.tell('msg:custom', { id: fake.sent[0]?.['id'], refused });
  await expect(asked).rejects.toEqual(refused);
});

test('cells are handed over as a list', async () => {
  const fake = new FakeModel();
  const asked = new KernelLineage(fake.model).ask({ op: 'cells', of: 'main' });
  const cells = [{ id: 'a', count: 1, source: '1' }];
  fake.tell('msg:custom', { id: fake.sent[0]?.['id'], done: { cells } });
  expect(await asked).toEqual(cells);
});

test('a place draws the tree, follows the model, and leaves nothing when it ends', async () => {
  const fake = new FakeModel();
  const end = widget.render({ model: fake.model, el });
  expect(el.querySelector('.bp-lineage')?.textContent).toContain('main');
  const view = small();
  const point = view.checkpoints.at(-1);
  if (point) {
    point.facts.label = 'just now';
  }
  fake.state['view'] = view;
  fake.tell('change:view');
  fake.tell('change:figures');
  await Promise.resolve();
  expect(el.querySelector('.bp-lineage')?.textContent).toContain('just now');
  end();
  expect(el.querySelector('.bp-lineage')).toBeNull();
  expect(fake.listeners).toBe(0);
});

test('only what is in sight says so, at once and every half minute', () => {
  vi.useFakeTimers();
  const fake = new FakeModel();
  const end = widget.render({ model: fake.model, el });
  vi.advanceTimersByTime(60_000);
  expect(fake.sent).toEqual([]);
  seen[0]?.([{ isIntersecting: true }]);
  vi.advanceTimersByTime(30_000);
  const look = { op: 'look', patches: true };
  expect(fake.sent).toEqual([look, look]);
  end();
});

test('a view is patched once for all places that show it, and one that was missed is asked for', async () => {
  const view = { ...small(), version: 4 };
  const fake = new FakeModel(view);
  const places = [document.createElement('div'), document.createElement('div')];
  widget.initialize({ model: fake.model });
  const ends = places.map(place => widget.render({ model: fake.model, el: place }));
  const added = aCheckpoint('k-new', 'k1', 'main', 'user', 'just now');
  const pieces = [[0, view.checkpoints.length], { item: added }];
  const patch = { version: { value: 5 }, checkpoints: { pieces } };
  fake.state['figures'] = { main: { own_bytes: 1 } };
  fake.tell('msg:custom', { patch, of: 4 });
  await Promise.resolve();
  expect(fake.state['figures']).toEqual({});
  for (const place of places) {
    expect(place.querySelectorAll('.bp-row[data-key="c:k-new"]')).toHaveLength(1);
  }
  fake.tell('msg:custom', { patch, of: 4 });
  expect(fake.sent).toEqual([]);
  fake.tell('msg:custom', { patch, of: 6 });
  expect(fake.sent).toEqual([{ op: 'whole' }]);
  expect(fake.state['view']).toMatchObject({ version: 5 });
  ends.forEach(end => end());
});

test('a kernel that has gone is told of, and its answers are waited for no more', () => {
  const fake = new FakeModel();
  const end = widget.render({ model: fake.model, el });
  const note = el.querySelector<HTMLElement>('[role=status]');
  expect(note?.hidden).toBe(true);
  fake.tell('comm_live_update');
  expect(note?.hidden).toBe(false);
  seen[0]?.([{ isIntersecting: true }]);
  expect(fake.sent).toEqual([]);
  end();
});

test('another model of the session takes the place of one that has gone', async () => {
  const [old, new_] = [new FakeModel(), new FakeModel()];
  const end = widget.render({ model: old.model, el });
  old.tell('comm_live_update');
  widget.initialize({ model: new_.model });
  expect(el.querySelector<HTMLElement>('[role=status]')?.hidden).toBe(true);
  expect(old.listeners).toBe(0);
  expect(el.querySelectorAll('.bp-lineage')).toHaveLength(1);
  end();
});

test('a kernel that is back is asked once for the widget', async () => {
  vi.useFakeTimers();
  const fake = new FakeModel();
  const kernel = { status: 'restarting', connectionStatus: 'connected' };
  const asked: string[] = [];
  fake.widget_manager = {
    kernel,
    _create_comm: async (target: string) => {
      asked.push(target);
      return { close: () => undefined };
    }
  };
  const end = widget.render({ model: fake.model, el });
  fake.tell('comm_live_update');
  await vi.advanceTimersByTimeAsync(2000);
  expect(asked).toEqual([]);
  kernel.status = 'idle';
  await vi.advanceTimersByTimeAsync(2000);
  expect(asked).toEqual(['branchpoint.lineage']);
  end();
});

test('what is for who has no widget is hidden below it, and nothing else is', async () => {
  document.body.insertAdjacentHTML(
    'beforeend',
    `<div id="outputs">
      <div class="jp-OutputArea-child" id="before"></div>
      <div class="jp-OutputArea-child"><div id="widget"></div></div>
      <div class="jp-OutputArea-child" id="picture"></div>
      <div class="jp-OutputArea-child" id="tables"></div>
      <div class="jp-OutputArea-child" id="after"></div>
    </div>`
  );
  const find = (id: string) => document.getElementById(id) as HTMLElement;
  const still = new Still(find('widget'));
  still.hide();
  const hidden = () =>
    ['before', 'picture', 'tables', 'after'].filter(id => find(id).style.display === 'none');
  expect(hidden()).toEqual([]);
  find('tables').innerHTML = '<table class="branchpoint-lineage-table"></table>';
  await Promise.resolve();
  expect(hidden()).toEqual(['picture', 'tables']);
  find('picture').replaceWith(Object.assign(document.createElement('div'), { id: 'picture' }));
  await Promise.resolve();
  expect(hidden()).toEqual(['picture', 'tables']);
  still.dispose();
  expect(hidden()).toEqual([]);
  find('outputs').remove();
});

test('a kernel that cannot be reached or has ended is told of, until it is there again', () => {
  vi.useFakeTimers();
  const fake = new FakeModel();
  const kernel = { status: 'idle', connectionStatus: 'connected' };
  const manager: { kernel: typeof kernel | null } = { kernel };
  fake.widget_manager = manager;
  const end = widget.render({ model: fake.model, el });
  const told = (): string => {
    vi.advanceTimersByTime(1000);
    const words = el.querySelector<HTMLElement>('[role=status]:not([hidden], .bp-aloud)');
    return words?.textContent ?? '';
  };
  expect(told()).toBe('');
  kernel.connectionStatus = 'connecting';
  expect(told()).toContain('cannot be reached');
  kernel.connectionStatus = 'connected';
  expect(told()).toBe('');
  manager.kernel = null;
  expect(told()).toContain('has ended');
  manager.kernel = kernel;
  expect(told()).toContain('was restarted');
  widget.initialize({ model: new FakeModel().model });
  expect(told()).toBe('');
  end();
});

test('a page that has no plugin of ours, or follows other notebooks, has nothing added to the tree', () => {
  const end = widget.render({ model: new FakeModel().model, el });
  const alone = offeredFor('c:k1');
  expect(alone).toContain('rollback');
  offerDeeds(['another session'], noting([]));
  expect(offeredFor('c:k1')).toEqual(alone);
  for (const deed of ['open', 'compare', 'restore']) {
    expect(alone).not.toContain(deed);
  }
  end();
});

test('what the page can do is offered for as long as it follows the notebook, and done by it', async () => {
  const { session } = small();
  const asked: string[] = [];
  const end = widget.render({ model: new FakeModel().model, el });
  const alone = offeredFor('c:k1');
  offerDeeds([session], noting(asked));
  await Promise.resolve();
  // What is selected has them at once: nothing has to happen in the session.
  for (const deed of ['restore', 'open', 'compare']) {
    el.querySelector<HTMLElement>(`.bp-offering:not([hidden]) [data-do=${deed}]`)?.click();
  }
  await Promise.resolve();
  expect(asked).toEqual([
    `restore ${session} k1`,
    `open ${session} main`,
    `compare ${session} boost main`
  ]);
  offerDeeds([], noting(asked));
  await Promise.resolve();
  expect(offeredFor('c:k1')).toEqual(alone);
  end();
});

test('a place is drawn once when the page comes, and not for each thing that it follows', async () => {
  const fake = new FakeModel();
  const end = widget.render({ model: fake.model, el });
  const drawn = vi.spyOn(fake, 'get');
  const follow = async (...sessions: string[]): Promise<number> => {
    drawn.mockClear();
    offerDeeds(sessions, noting([]));
    await Promise.resolve();
    return drawn.mock.calls.filter(([name]) => name === 'view').length;
  };
  const { session } = small();
  expect(await follow('another session')).toBe(0);
  expect(await follow('another session', session)).toBe(1);
  expect(await follow(session)).toBe(0);
  expect(await follow()).toBe(1);
  end();
  expect(await follow(session)).toBe(0);
});

test('a page that was there first is found by each model of the session', () => {
  offerDeeds([small().session], noting([]));
  const [old, new_] = [new FakeModel(), new FakeModel()];
  const end = widget.render({ model: old.model, el });
  expect(offeredFor('b:deep')).toContain('open');
  old.tell('comm_live_update');
  widget.initialize({ model: new_.model });
  expect(offeredFor('b:deep')).toContain('open');
  end();
});
