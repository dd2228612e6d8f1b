import { expect, test } from 'vitest';
import type { SessionOverview } from '../src/api';
import { ClosedSessions, notShown, type OpenNotebook } from '../src/closed_sessions';
import type { KernelKind } from '../src/follow';

function session(id: string, facts: Partial<SessionOverview> = {}): SessionOverview {
  return {
    id,
    key: `/home/eva/${id}.ipynb`,
    path: `${id}.ipynb`,
    created_at: '2026-01-02T03:04:05+00:00',
    open: false,
    owner: null,
    current: 'main',
    checkpoints: 2,
    branches: 1,
    newest_at: null,
    disk_bytes: 0,
    ...facts
  };
}

function notebook(name: string, kernel: KernelKind, id?: string): OpenNotebook {
  const lineage = id === undefined ? null : { session: id };
  return { kernel, lineage, panel: { context: { localPath: `${name}.ipynb` } } };
}

const running = { open: true, owner: 'kernel' } as const;

test('every session is listed that no notebook of this page shows, the newest first', () => {
  const there = [session('old'), session('shown', running), session('left', running)];
  const open = [notebook('renamed', 'ours', 'shown')];
  expect(notShown(there, open).map(({ id }) => id)).toEqual(['left', 'old']);
});

test('nor is that of a notebook listed whose kernel is just beginning', () => {
  const there = [session('beginning'), session('elsewhere')];
  const open = [notebook('beginning', 'ours'), notebook('elsewhere', 'other')];
  expect(notShown(there, open).map(({ id }) => id)).toEqual(['elsewhere']);
});

test('one that somebody has open is said to be running, and one that rests is not', () => {
  const list = new ClosedSessions({ choose: () => {} });
  list.show([session('left', running), session('old')], null);
  const words = [...list.node.querySelectorAll('.bp-Closed-facts')].map(it => it.textContent);
  expect(words).toEqual(['running · 2 checkpoints · 0 kB', '2 checkpoints · 0 kB']);
  list.show([session('left'), session('old', running)], null);
  expect(list.node.querySelector('.bp-Closed-facts')?.textContent).toBe('2 checkpoints · 0 kB');
});
