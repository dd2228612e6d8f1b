/**
 * Asks the routes of the server extension: what sessions there are, what one is like, live, and
 * what is to be done with it. Authenticated and safe from forgery as JupyterLab's own requests are.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type {
  Action,
  CellText,
  LineageService,
  LineageView,
  Question,
  Refusal,
  Told
} from './lineage/facts';
import { type Figures, withFigures } from './lineage/figures';
import { type Patch, patched } from './lineage/patches';

/** A session at a glance; mirrors OverviewPayload in branchpoint_nbext/payloads.py. */
export interface SessionOverview {
  id: string;
  key: string;
  /** Its notebook's, as the contents service names it; null if that is none of this server's. */
  path: string | null;
  created_at: string;
  open: boolean;
  owner: 'kernel' | 'owner' | 'script' | null;
  current: string | null;
  checkpoints: number;
  branches: number;
  newest_at: string | null;
  disk_bytes: number;
}

/** Where the copy of a document is that continues a branch, and how many cells it has. */
export interface OpenedBranch {
  path: string;
  cells: number;
}

/** What a session's websocket tells: all of it, what is another since, or figures that moved. */
type News = { view: LineageView } | { patch: Patch } | { figures: Figures };

/** By its running kernel, or the notebook's path if it has none. */
export type Whose = { kernel: string } | { path: string };

/** What cannot be, in the words of whoever refused it. */
export class RefusedError extends Error implements Refusal {
  override readonly name = 'RefusedError';

  /** `status` is that of the answer, 0 if there was none. */
  constructor(
    { message, hint }: Refusal,
    readonly status: number
  ) {
    super(message);
    this.hint = hint;
  }

  readonly hint: string;
}

const NOT_FOUND = 404;
const NOT_MODIFIED = 304;
/** With this a websocket is closed whose session is on record no longer. */
const GONE = 4404;
/**
 * In milliseconds, until a connection that was lost is tried again: the first time; while a server
 * may just be starting again, so that soon after it is back the truth is shown; and then.
 */
const FIRST_WAIT = 100;
const SOON_WAIT = 800;
const LATER_WAIT = 5000;
const SOON = 60_000;

/** The routes of one server. */
export class Lineages {
  /** The list of sessions as it was told last, and what it is known by to the server. */
  private listed: { tag: string; sessions: SessionOverview[] } | null = null;

  constructor(readonly settings: ServerConnection.ISettings = ServerConnection.makeSettings()) {}

  /** Every session, oldest first. The server does not look through them if nothing has changed. */
  async sessions(): Promise<SessionOverview[]> {
    const { listed } = this;
    const headers: HeadersInit = listed === null ? {} : { 'If-None-Match': listed.tag };
    const response = await this.respond('sessions', { method: 'GET', headers });
    if (response.status === NOT_MODIFIED && listed !== null) {
      return listed.sessions;
    }
    const { sessions } = await answerIn<{ sessions: SessionOverview[] }>(response);
    const tag = response.headers.get('ETag');
    this.listed = tag === null ? null : { tag, sessions };
    return sessions;
  }

  /** The id of a notebook's session; null if it has none. */
  async sessionOf(whose: Whose): Promise<string | null> {
    try {
      return (await this.get<{ session: string | null }>('session-of', whose)).session;
    } catch (error) {
      // The kernel has just ended, or the file was moved.
      if (error instanceof RefusedError && error.status === NOT_FOUND) {
        return null;
      }
      throw error;
    }
  }

  /** A session as it is now. */
  async view(session: string): Promise<LineageView> {
    return this.get<LineageView>('view', { session });
  }

  /** A session from now on, until what is returned is disposed of. */
  open(session: string): ServerLineage {
    return new ServerLineage(this, session);
  }

  /** Copy a document up to where a branch began, for a kernel that continues the branch. */
  async openBranch(session: string, branch: string, path?: string): Promise<OpenedBranch> {
    const fields = path === undefined ? {} : { path };
    return this.post<OpenedBranch>('open-branch', { session, branch, ...fields });
  }

  async get<T>(route: string, query: Record<string, string>): Promise<T> {
    return this.request<T>(route, { method: 'GET' }, URLExt.objectToQueryString(query));
  }

  async post<T>(route: string, fields: object, unwanted?: AbortSignal): Promise<T> {
    const headers = { 'Content-Type': 'application/json' };
    const body = JSON.stringify(fields);
    return this.request<T>(route, { method: 'POST', headers, body, signal: unwanted ?? null });
  }

  /** The address of a session's websocket. */
  liveUrl(session: string): string {
    const { wsUrl, appendToken, token } = this.settings;
    const wanted = { session, patches: '1' };
    const query = appendToken && token !== '' ? { ...wanted, token } : wanted;
    return URLExt.join(wsUrl, 'branchpoint/live') + URLExt.objectToQueryString(query);
  }

  private async request<T>(route: string, init: RequestInit, query = ''): Promise<T> {
    return answerIn<T>(await this.respond(route, init, query));
  }

  private async respond(route: string, init: RequestInit, query = ''): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, 'branchpoint', route) + query;
    try {
      return await ServerConnection.makeRequest(url, init, this.settings);
    } catch {
      throw new RefusedError(
        { message: 'The Jupyter server does not answer.', hint: 'Is it still running?' },
        0
      );
    }
  }
}

/**
 * One session as it is, pushed by the server. A connection that is lost is made again; meanwhile
 * the last view stays, and `connected` is false.
 */
export class ServerLineage implements LineageService, IDisposable {
  view: LineageView | null = null;
  connected = false;
  /** Whether the session is on record no longer. */
  gone = false;
  isDisposed = false;
  private readonly hasChanged = new Signal<this, void>(this);
  /** The view as it was told, without the figures that have moved since. */
  private told: LineageView | null = null;
  private socket: WebSocket | null = null;
  private wait = FIRST_WAIT;
  private lostAt: number | null = null;
  private timer: number | undefined;

  constructor(
    private readonly server: Lineages,
    readonly session: string
  ) {
    window.addEventListener('online', this.hurry);
    document.addEventListener('visibilitychange', this.hurry);
    document.addEventListener('visibilitychange', this.saySeen);
    this.connect();
  }

  /** The view is another, or the connection has been lost or made. */
  get changed(): ISignal<this, void> {
    return this.hasChanged;
  }

  async act(action: Action): Promise<Record<string, unknown>> {
    const fields = { session: this.session, ...action };
    return (await this.server.post<{ done: Record<string, unknown> }>('act', fields)).done;
  }

  async ask(question: Question, unwanted?: AbortSignal): Promise<Told | CellText[]> {
    const fields = { session: this.session, ...question };
    const answer = await this.server.post<Told | { cells: CellText[] }>('ask', fields, unwanted);
    return 'cells' in answer ? answer.cells : answer;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.connected = false;
    window.clearTimeout(this.timer);
    window.removeEventListener('online', this.hurry);
    document.removeEventListener('visibilitychange', this.hurry);
    document.removeEventListener('visibilitychange', this.saySeen);
    end(this.drop());
    Signal.clearData(this);
  }

  private connect(): void {
    const socket = new this.server.settings.WebSocket(this.server.liveUrl(this.session));
    this.socket = socket;
    socket.addEventListener('open', this.saySeen);
    // What an earlier one still has to say is of no interest.
    socket.addEventListener('message', ({ data }) => {
      if (this.socket === socket) {
        this.show(data as string);
      }
    });
    socket.addEventListener('close', ({ code }) => {
      if (this.socket === socket) {
        this.lose(code);
      }
    });
  }

  private show(data: string): void {
    const news = JSON.parse(data) as News;
    if ('figures' in news) {
      this.view = this.told && withFigures(this.told, news.figures);
    } else {
      this.view = 'view' in news ? news.view : this.told && patched(this.told, news.patch);
      this.told = this.view;
    }
    this.connected = true;
    this.wait = FIRST_WAIT;
    this.lostAt = null;
    this.hasChanged.emit();
  }

  private lose(code: number): void {
    const refused = !this.connected;
    this.drop();
    this.connected = false;
    this.gone = code === GONE;
    this.hasChanged.emit();
    if (!this.gone) {
      this.tryLater();
      if (refused) {
        void this.lookWhetherGone();
      }
    }
  }

  /** A page is not told why a websocket was refused. */
  private async lookWhetherGone(): Promise<void> {
    try {
      await this.server.view(this.session);
    } catch (error) {
      if (!(error instanceof RefusedError) || error.status !== NOT_FOUND || this.isDisposed) {
        return;
      }
      window.clearTimeout(this.timer);
      end(this.drop());
      this.connected = false;
      this.gone = true;
      this.hasChanged.emit();
    }
  }

  private tryLater(): void {
    this.lostAt ??= Date.now();
    const most = Date.now() - this.lostAt < SOON ? SOON_WAIT : LATER_WAIT;
    // Not all pages at the same moment, after a server was started again.
    const wait = Math.min(this.wait, most) * (0.75 + Math.random() / 2);
    this.wait *= 2;
    this.timer = window.setTimeout(() => this.connect(), wait);
  }

  /** The network is back, or somebody looks: what is shown had better be true. */
  private readonly hurry = (): void => {
    if (this.socket === null && !this.gone && document.visibilityState === 'visible') {
      window.clearTimeout(this.timer);
      this.connect();
    }
  };

  /** Where nobody looks figures need not come as they move. */
  private readonly saySeen = (): void => {
    const seen = document.visibilityState === 'visible';
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify({ seen }));
    }
  };

  private drop(): WebSocket | null {
    const socket = this.socket;
    this.socket = null;
    return socket;
  }
}

/** A browser complains of one that is closed before it is open. */
function end(socket: WebSocket | null): void {
  if (socket?.readyState === WebSocket.CONNECTING) {
    socket.addEventListener('open', () => socket.close());
  } else {
    socket?.close();
  }
}

async function answerIn<T>(response: Response): Promise<T> {
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    throw new RefusedError(refusalIn(answer, response), response.status);
  }
  return answer as T;
}

function refusalIn(answer: unknown, response: Response): Refusal {
  const { message, hint } = (answer ?? {}) as Partial<Refusal>;
  return {
    message: message || `The Jupyter server answered ${response.status} ${response.statusText}.`,
    hint: hint ?? ''
  };
}
