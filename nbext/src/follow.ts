/**
 * Which session a notebook has: that of its running kernel, else the one of its path, followed
 * through restarts, other kernels, renames and servers that went away.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, ServiceManager } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import { Lineages, type ServerLineage } from './api';
import { KernelCheck } from './kernel_check';
import type { LineageView } from './lineage/facts';

/** What runs the cells of a notebook: a kernel of ours, some other, or nothing. */
export type KernelKind = 'ours' | 'other' | 'none';

/** In milliseconds: a kernel that has begun has its session soon, a server that went away returns. */
const SOON = 500;
const LATEST = 8000;
/** Of a kernel that may have no session yet. */
const BEGINNING = ['starting', 'restarting', 'autorestarting'];

/** One open notebook, and what is known of its session. */
export class FollowedNotebook implements IDisposable {
  /** Something below has become another, or the view has. */
  readonly changed = new Signal<this, void>(this);
  kernel: KernelKind = 'none';
  lineage: ServerLineage | null = null;
  /** Whether the server could not be asked. */
  unreachable = false;
  isDisposed = false;
  private wasConnected = false;
  private asked = 0;
  private wait = SOON;
  private timer: number | undefined;
  private status: Kernel.Status = 'unknown';
  private readonly check: KernelCheck;

  /** `lookForKernels` has JupyterLab look which kernels there are. */
  constructor(
    readonly panel: NotebookPanel,
    private readonly server: Lineages,
    lookForKernels: () => Promise<void>
  ) {
    const { context } = this;
    this.check = new KernelCheck(lookForKernels);
    context.kernelChanged.connect(this.begin, this);
    context.statusChanged.connect(this.onStatus, this);
    context.connectionStatusChanged.connect(this.onConnection, this);
    context.propertyChanged.connect(this.begin, this);
    panel.context.pathChanged.connect(this.begin, this);
    panel.disposed.connect(this.dispose, this);
    void this.beginWhenReady();
    this.begin();
  }

  get view(): LineageView | null {
    return this.lineage?.view ?? null;
  }

  /** Whether what is shown is what is: not if a connection has been lost. */
  get connected(): boolean {
    return !this.unreachable && (this.view === null || this.lineage?.connected === true);
  }

  /** Whether a kernel is on its way that there is nothing to know of yet. */
  get starting(): boolean {
    const { kernelDisplayStatus, session } = this.context;
    return !session?.kernel && ['initializing', 'starting'].includes(kernelDisplayStatus);
  }

  /** Whether the session can be asked to do something. */
  get steerable(): boolean {
    return this.kernel === 'ours' && this.connected && this.view !== null && !!this.view.owner;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.asked += 1;
    window.clearTimeout(this.timer);
    this.check.dispose();
    this.lineage?.dispose();
    Signal.clearData(this);
  }

  private get context(): ISessionContext {
    return this.panel.sessionContext;
  }

  private async beginWhenReady(): Promise<void> {
    await this.context.ready;
    this.begin();
  }

  private onStatus(): void {
    const before = this.status;
    this.status = this.context.session?.kernel?.status ?? 'unknown';
    this.checkKernel();
    const rose = this.status === 'idle' && before !== 'idle' && before !== 'busy';
    // A kernel has no session before it answers, and none any more once it is dead.
    if (rose || (this.status === 'dead' && before !== 'dead')) {
      this.begin();
    }
  }

  private onConnection(): void {
    if (this.context.session?.kernel?.connectionStatus === 'connected') {
      this.begin();
    }
  }

  /** Ask from the beginning; what was asked before does not count any more. */
  private begin(): void {
    if (this.isDisposed) {
      return;
    }
    this.wait = SOON;
    this.asked += 1;
    // Signals come in bunches: a new kernel, its state, its connection.
    this.lookIn(0);
  }

  private lookIn(milliseconds: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.look(), milliseconds);
  }

  private async look(): Promise<void> {
    const turn = this.asked;
    const kernel = this.context.session?.kernel ?? null;
    const kind = this.kindOf(kernel);
    try {
      const running = kind === 'ours' && kernel ? await this.ofKernel(kernel) : null;
      const session = running ?? (await this.onRecord(kind));
      if (turn !== this.asked) {
        return;
      }
      this.settle(kind, session);
      if (kind === 'ours' && running === null) {
        this.lookAgain();
      }
    } catch {
      if (turn === this.asked) {
        this.unreachable = true;
        this.changed.emit();
        this.lookAgain();
      }
    }
  }

  /** A kernel that has not answered yet has no session, nor has a dead one: neither is asked about. */
  private async ofKernel(kernel: Kernel.IKernelConnection): Promise<string | null> {
    const without = ['unknown', 'dead', ...BEGINNING];
    return without.includes(kernel.status) ? null : this.server.sessionOf({ kernel: kernel.id });
  }

  /**
   * Without a running one: by the path, else what it had, as a notebook that was renamed since has.
   * A kernel that starts anew is given a moment before it is looked up, and looked up once.
   */
  private async onRecord(kind: KernelKind): Promise<string | null> {
    // One that was removed is had no longer.
    const has = this.lineage?.gone ? null : (this.lineage?.session ?? null);
    const isReady = kind === 'ours' ? has !== null || this.wait === 2 * SOON : this.context.isReady;
    if (kind === 'other') {
      return null;
    }
    const path = this.panel.context.path;
    return (isReady ? await this.server.sessionOf({ path }) : null) ?? has;
  }

  private lookAgain(): void {
    this.lookIn(this.wait);
    this.wait = Math.min(this.wait * 2, LATEST);
  }

  private settle(kind: KernelKind, session: string | null): void {
    this.kernel = kind;
    this.unreachable = false;
    if (session !== (this.lineage?.session ?? null)) {
      this.lineage?.dispose();
      this.lineage = session === null ? null : this.server.open(session);
      this.lineage?.changed.connect(this.onLineage, this);
    }
    this.checkKernel();
    this.changed.emit();
  }

  private onLineage(lineage: ServerLineage): void {
    const isBack = lineage.connected && !this.wasConnected;
    this.wasConnected = lineage.connected;
    // One that was removed: the notebook may have another by now, or none.
    if (lineage.gone || (isBack && this.unreachable)) {
      this.begin();
    }
    this.checkKernel();
    this.changed.emit();
  }

  /** A kernel of ours without its session has ended, with its server or by somebody else. */
  private checkKernel(): void {
    const status = this.context.session?.kernel?.status ?? 'dead';
    const isOpen = !this.lineage?.connected || this.view === null || this.view.owner !== null;
    this.check.needed = this.kernel === 'ours' && !isOpen && !BEGINNING.includes(status);
  }

  /** By the command that starts it: whoever installs a kernelspec may name it as they like. */
  private kindOf(kernel: Kernel.IKernelConnection | null): KernelKind {
    if (kernel === null) {
      return 'none';
    }
    const specs = this.context.specsManager.specs;
    const argv = specs?.kernelspecs[kernel.name]?.argv ?? [];
    return argv.some(word => word.includes('branchpoint_kernel')) ? 'ours' : 'other';
  }
}

/** Every open notebook, and the one in front. */
export interface IFollowing {
  /** Another notebook is in front, or something about that one has changed. */
  readonly changed: ISignal<IFollowing, void>;
  readonly added: ISignal<IFollowing, FollowedNotebook>;
  readonly current: FollowedNotebook | null;
  readonly all: readonly FollowedNotebook[];
  readonly server: Lineages;
  of(panel: NotebookPanel): FollowedNotebook | null;
}

export const IFollowing = new Token<IFollowing>(
  'branchpoint:IFollowing',
  'Which session each open notebook has.'
);

export class Following implements IFollowing {
  readonly changed = new Signal<this, void>(this);
  readonly added = new Signal<this, FollowedNotebook>(this);
  private readonly followed = new Map<string, FollowedNotebook>();

  constructor(
    private readonly tracker: INotebookTracker,
    readonly server: Lineages,
    private readonly running: Pick<ServiceManager.IManager, 'kernels' | 'sessions'>
  ) {
    tracker.forEach(panel => this.follow(panel));
    tracker.widgetAdded.connect((_, panel) => this.follow(panel));
    tracker.currentChanged.connect(() => this.changed.emit());
  }

  get current(): FollowedNotebook | null {
    const panel = this.tracker.currentWidget;
    return panel === null ? null : this.of(panel);
  }

  get all(): readonly FollowedNotebook[] {
    return [...this.followed.values()];
  }

  of(panel: NotebookPanel): FollowedNotebook | null {
    return this.followed.get(panel.id) ?? null;
  }

  private follow(panel: NotebookPanel): void {
    const notebook = new FollowedNotebook(panel, this.server, async () => {
      // What shows a kernel is told of its end by the first, and by the second that none is left.
      await this.running.kernels.refreshRunning();
      await this.running.sessions.refreshRunning();
    });
    this.followed.set(panel.id, notebook);
    panel.disposed.connect(() => {
      this.followed.delete(panel.id);
      this.changed.emit();
    });
    notebook.changed.connect(() => {
      if (notebook === this.current) {
        this.changed.emit();
      }
    });
    this.added.emit(notebook);
  }
}

export const following: JupyterFrontEndPlugin<IFollowing> = {
  id: 'branchpoint:following',
  description: 'Knows which session each open notebook has.',
  autoStart: true,
  provides: IFollowing,
  requires: [INotebookTracker],
  activate: ({ serviceManager }: JupyterFrontEnd, tracker: INotebookTracker) =>
    new Following(tracker, new Lineages(serviceManager.serverSettings), serviceManager)
};
