import type { Session } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { endOnceThere } from '../src/ending';

/** The sessions of a Jupyter server, as a page is told of them. */
class Sessions {
  readonly runningChanged = new Signal<Session.IManager, Session.IModel[]>(this as never);
  readonly shutdown = vi.fn(async () => {});
  private there: Session.IModel[] = [];

  running(): IterableIterator<Session.IModel> {
    return this.there.values();
  }

  become(...paths: string[]): void {
    this.there = paths.map(path => ({ id: `of ${path}`, path }) as Session.IModel);
    this.runningChanged.emit(this.there);
  }
}

let sessions: Sessions;
let isOpen = false;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  sessions = new Sessions();
  isOpen = false;
});

afterEach(() => {
  vi.useRealTimers();
});

function end(): void {
  endOnceThere(sessions, 'demo-ridge.ipynb', () => isOpen);
}

test('a kernel that is there already ends at once', () => {
  sessions.become('demo.ipynb', 'demo-ridge.ipynb');
  end();
  expect(sessions.shutdown).toHaveBeenCalledExactlyOnceWith('of demo-ridge.ipynb');
});

test('one that was asked for ends once it is there, and no later one', () => {
  end();
  sessions.become('demo.ipynb', 'b1a2-c3');
  expect(sessions.shutdown).not.toHaveBeenCalled();
  sessions.become('demo.ipynb', 'demo-ridge.ipynb');
  sessions.become('demo.ipynb');
  sessions.become('demo.ipynb', 'demo-ridge.ipynb');
  expect(sessions.shutdown).toHaveBeenCalledExactlyOnceWith('of demo-ridge.ipynb');
});

test('a notebook that is opened again meanwhile keeps its kernel', () => {
  end();
  isOpen = true;
  sessions.become('demo-ridge.ipynb');
  isOpen = false;
  sessions.become('demo.ipynb', 'demo-ridge.ipynb');
  expect(sessions.shutdown).not.toHaveBeenCalled();
});

test('one that comes of something else, long after, is left alone', () => {
  end();
  vi.advanceTimersByTime(60_001);
  sessions.become('demo-ridge.ipynb');
  expect(sessions.shutdown).not.toHaveBeenCalled();
});

test('one that has ended by itself meanwhile is no trouble', async () => {
  sessions.shutdown.mockRejectedValue(new Error('Session not found'));
  sessions.become('demo-ridge.ipynb');
  end();
  await vi.advanceTimersByTimeAsync(100);
  expect(sessions.shutdown).toHaveBeenCalledOnce();
});
