import { Signal } from '@lumino/signaling';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Lineages, ServerLineage } from '../src/api';
import { FollowedNotebook } from '../src/follow';

// JupyterLab's own needs more of a page than jsdom has.
vi.mock('@jupyterlab/notebook', () => ({ INotebookTracker: null }));

const OURS = { argv: ['python', '-m', 'branchpoint_kernel'] };

/** What a page has of the kernel of a notebook. */
class Context {
  readonly kernelChanged = new Signal<this, void>(this);
  readonly statusChanged = new Signal<this, void>(this);
  readonly connectionStatusChanged = new Signal<this, void>(this);
  readonly propertyChanged = new Signal<this, void>(this);
  readonly ready = Promise.resolve();
  readonly specsManager = { specs: { kernelspecs: { branchpoint: OURS } } };
  readonly kernelDisplayStatus = 'idle';
  readonly isReady = true;
  readonly kernel = { id: 'k', name: 'branchpoint', status: 'idle', connectionStatus: 'connected' };
  session: { kernel: Context['kernel'] } | null = { kernel: this.kernel };

  lose(): void {
    this.session = null;
    this.kernelChanged.emit();
  }
}

/** A session as the server tells of it. */
class Lineage {
  readonly changed = new Signal<this, void>(this);
  readonly session = 's';
  connected = true;
  gone = false;
  view: { owner: string | null } = { owner: 'kernel' };

  constructor(private readonly server: Server) {}

  tell(connected: boolean, owner: string | null): void {
    this.connected = connected;
    this.view = { owner };
    this.changed.emit();
  }

  dispose(): void {
    this.server.lineage = null;
  }
}

class Server {
  answers = true;
  asked = 0;
  lineage: Lineage | null = null;

  open(): ServerLineage {
    this.lineage = new Lineage(this);
    return this.lineage as unknown as ServerLineage;
  }

  async sessionOf(): Promise<string | null> {
    this.asked += 1;
    if (!this.answers) {
      throw new Error('The Jupyter server does not answer.');
    }
    return 's';
  }
}

let context: Context;
let server: Server;
let look: ReturnType<typeof vi.fn<() => Promise<void>>>;
let notebook: FollowedNotebook;

function panel(): NotebookPanel {
  const document = { path: 'a.ipynb', pathChanged: new Signal<object, void>({}) };
  const disposed = new Signal<object, void>({});
  return { sessionContext: context, context: document, disposed } as unknown as NotebookPanel;
}

function lineage(): Lineage {
  return server.lineage as Lineage;
}

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  context = new Context();
  server = new Server();
  look = vi.fn(async () => {});
  notebook = new FollowedNotebook(panel(), server as unknown as Lineages, look);
  await vi.advanceTimersByTimeAsync(100);
});

afterEach(() => {
  notebook.dispose();
  vi.useRealTimers();
});

describe('a notebook whose session nobody has open any more', () => {
  it('has JupyterLab look at once whether its kernel is still there', async () => {
    expect([notebook.kernel, look.mock.calls.length]).toEqual(['ours', 0]);
    lineage().tell(false, 'kernel');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look).not.toHaveBeenCalled();
    look.mockImplementationOnce(async () => context.lose());
    lineage().tell(true, null);
    await vi.advanceTimersByTimeAsync(100);
    expect(look).toHaveBeenCalledOnce();
    expect([notebook.kernel, notebook.view]).toEqual(['none', { owner: null }]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look).toHaveBeenCalledOnce();
  });

  it('has it look again, less and less often, as long as the server still has it', async () => {
    look.mockRejectedValueOnce(new Error('The Jupyter server does not answer.'));
    lineage().tell(true, null);
    await vi.advanceTimersByTimeAsync(1000);
    expect(look).toHaveBeenCalledTimes(2);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look.mock.calls.length).toBeGreaterThan(5);
    expect(look.mock.calls.length).toBeLessThan(15);
  });

  it('lets it be once the kernel has the session again', async () => {
    lineage().tell(true, null);
    await vi.advanceTimersByTimeAsync(100);
    lineage().tell(true, 'kernel');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look).toHaveBeenCalledOnce();
  });

  it('waits for a kernel that is being restarted', async () => {
    context.kernel.status = 'restarting';
    lineage().tell(true, null);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look).not.toHaveBeenCalled();
  });

  it('has it look when the page comes into sight, where nothing is looked at before', async () => {
    lineage().tell(true, null);
    await vi.advanceTimersByTimeAsync(60_000);
    const before = look.mock.calls.length;
    document.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(100);
    expect(look).toHaveBeenCalledTimes(before + 1);
  });

  it('is forgotten once it is closed', async () => {
    lineage().tell(true, null);
    notebook.dispose();
    document.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(look).not.toHaveBeenCalled();
  });
});

describe('a notebook whose server could not be asked', () => {
  it('is connected again as soon as its session is', async () => {
    server.answers = false;
    context.kernelChanged.emit();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([notebook.connected, notebook.unreachable]).toEqual([false, true]);
    lineage().tell(false, 'kernel');
    server.answers = true;
    lineage().tell(true, 'kernel');
    await vi.advanceTimersByTimeAsync(100);
    expect(notebook.connected).toBe(true);
  });

  it('is not asked about with each thing that its session has to tell', async () => {
    const before = server.asked;
    lineage().tell(true, 'kernel');
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked).toBe(before);
  });
});
