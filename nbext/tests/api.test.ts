import { ServerConnection } from '@jupyterlab/services';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Lineages, RefusedError, type ServerLineage } from '../src/api';

const BASE = 'http://localhost:8888/user/me/';

/** What was asked of the server that is made up here, and what it is to answer. */
class FakeServer {
  readonly asked: {
    method: string;
    url: URL;
    body: unknown;
    headers: Headers;
    signal: AbortSignal;
  }[] = [];
  answer: () => Response = () => json({});

  readonly settings = ServerConnection.makeSettings({
    baseUrl: BASE,
    wsUrl: 'ws://localhost:8888/user/me/',
    token: 'secret',
    appendToken: true,
    fetch: async (input: RequestInfo | URL) => {
      const request = input as Request;
      const text = await request.text();
      const body: unknown = text === '' ? null : JSON.parse(text);
      const url = new URL(request.url);
      const { method, headers, signal } = request;
      this.asked.push({ method, url, body, headers, signal });
      return this.answer();
    },
    WebSocket: FakeSocket as unknown as typeof WebSocket
  });
}

class FakeSocket extends EventTarget {
  static made: FakeSocket[] = [];
  closed = false;
  readyState: number = WebSocket.CONNECTING;
  readonly said: unknown[] = [];

  constructor(readonly url: string) {
    super();
    FakeSocket.made.push(this);
  }

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event('open'));
  }

  send(said: string): void {
    this.said.push(JSON.parse(said));
  }

  push(version: number, branches: object[] = []): void {
    this.bring({ view: { version, session: 's', branches } });
  }

  bring(news: object): void {
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(news) }));
  }

  lose(code = 1006): void {
    this.dispatchEvent(new CloseEvent('close', { code }));
  }

  close(): void {
    this.closed = true;
  }
}

function json(fields: object, status = 200): Response {
  return new Response(JSON.stringify(fields), { status });
}

let server: FakeServer;
let lineages: Lineages;
let opened: ServerLineage[] = [];

function open(session: string): ServerLineage {
  const lineage = lineages.open(session);
  opened.push(lineage);
  return lineage;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  FakeSocket.made = [];
  server = new FakeServer();
  lineages = new Lineages(server.settings);
});

afterEach(() => {
  opened.forEach(lineage => lineage.dispose());
  opened = [];
  vi.useRealTimers();
});

describe('a request', () => {
  it('goes below the base of the server, with its token', async () => {
    server.answer = () => json({ sessions: [] });
    expect(await lineages.sessions()).toEqual([]);
    const [{ url, method, headers }] = server.asked as [(typeof server.asked)[0]];
    expect([method, url.pathname]).toEqual(['GET', '/user/me/branchpoint/sessions']);
    expect(headers.get('Authorization')).toBe('token secret');
  });

  it('has the list of sessions told again only if it has changed', async () => {
    const list = (id: string): Response =>
      new Response(JSON.stringify({ sessions: [{ id }] }), { headers: { ETag: `"${id}"` } });
    server.answer = () => list('a');
    await lineages.sessions();
    server.answer = () => new Response(null, { status: 304 });
    expect(await lineages.sessions()).toEqual([{ id: 'a' }]);
    server.answer = () => list('b');
    expect(await lineages.sessions()).toEqual([{ id: 'b' }]);
    server.answer = () => json({ message: 'a damaged store', hint: '' }, 422);
    await expect(lineages.sessions()).rejects.toThrow('a damaged store');
    server.answer = () => new Response(null, { status: 304 });
    expect(await lineages.sessions()).toEqual([{ id: 'b' }]);
    const known = server.asked.map(({ headers }) => headers.get('If-None-Match'));
    expect(known).toEqual([null, '"a"', '"a"', '"b"', '"b"']);
  });

  it('names a notebook whatever it is called', async () => {
    server.answer = () => json({ session: 's' });
    expect(await lineages.sessionOf({ path: 'a b/../ü&x=1?.ipynb' })).toBe('s');
    expect(server.asked[0]?.url.searchParams.get('path')).toBe('a b/../ü&x=1?.ipynb');
  });

  it('finds no session where there is none', async () => {
    server.answer = () => json({ session: null });
    expect(await lineages.sessionOf({ kernel: 'k' })).toBeNull();
    server.answer = () => json({ message: 'this server has no kernel', hint: '' }, 404);
    expect(await lineages.sessionOf({ kernel: 'k' })).toBeNull();
  });

  it('says in words of the server what it refuses', async () => {
    server.answer = () => json({ message: 'a cell runs', hint: 'wait for it' }, 409);
    const refused = open('s').act({ op: 'switch', name: 'ridge' });
    await expect(refused).rejects.toBeInstanceOf(RefusedError);
    await expect(refused).rejects.toMatchObject({
      message: 'a cell runs',
      hint: 'wait for it',
      status: 409
    });
  });

  it('says so if what came back is no answer of ours', async () => {
    server.answer = () => new Response('<html>', { status: 502, statusText: 'Bad Gateway' });
    await expect(lineages.sessions()).rejects.toThrow('answered 502 Bad Gateway');
  });

  it('says so if nothing came back', async () => {
    server.answer = () => {
      throw new TypeError('failed to fetch');
    };
    await expect(lineages.sessions()).rejects.toMatchObject({ status: 0 });
  });

  it('brings what is to be done, and what was done', async () => {
    server.answer = () => json({ done: { name: 'ridge' } });
    const done = await open('s').act({ op: 'fork', count: 2, names: ['a', 'b'] });
    expect(done).toEqual({ name: 'ridge' });
    expect(server.asked[0]).toMatchObject({
      method: 'POST',
      body: { session: 's', op: 'fork', count: 2, names: ['a', 'b'] }
    });
  });

  it('brings back the cells of a line of work, and lines for people', async () => {
    const lineage = open('s');
    server.answer = () => json({ cells: [{ id: 'c', count: 1, source: 'x' }] });
    expect(await lineage.ask({ op: 'cells', of: 'main' })).toHaveLength(1);
    server.answer = () => json({ text: 'nothing', html: '', record: {} });
    expect(await lineage.ask({ op: 'preview', target: 'a' })).toMatchObject({ text: 'nothing' });
  });

  it('lets go of a question whose answer nobody wants any more', async () => {
    const closed = new AbortController();
    await open('s').ask({ op: 'preview', target: 'a' }, closed.signal);
    expect(server.asked[0]?.signal.aborted).toBe(false);
    closed.abort();
    expect(server.asked[0]?.signal.aborted).toBe(true);
  });

  it('asks for a branch to be opened, by the path of its notebook if that is known', async () => {
    server.answer = () => json({ path: 'a-ridge.ipynb', cells: 3 });
    expect(await lineages.openBranch('s', 'ridge')).toEqual({ path: 'a-ridge.ipynb', cells: 3 });
    await lineages.openBranch('s', 'ridge', 'a.ipynb');
    expect(server.asked.map(({ body }) => body)).toEqual([
      { session: 's', branch: 'ridge' },
      { session: 's', branch: 'ridge', path: 'a.ipynb' }
    ]);
  });
});

describe('a session that is followed', () => {
  function socket(): FakeSocket {
    return FakeSocket.made.at(-1) as FakeSocket;
  }

  it('is what was pushed last', () => {
    const lineage = open('s/1');
    const told = vi.fn();
    lineage.changed.connect(told);
    expect(socket().url).toBe(
      'ws://localhost:8888/user/me/branchpoint/live?session=s%2F1&patches=1&token=secret'
    );
    expect([lineage.view, lineage.connected]).toEqual([null, false]);
    socket().push(1);
    socket().push(2);
    expect([lineage.view?.version, lineage.connected]).toEqual([2, true]);
    expect(told).toHaveBeenCalledTimes(2);
  });

  it('has the figures that have moved since its last view', () => {
    const lineage = open('s');
    socket().push(1, [{ facts: { name: 'main', own_bytes: 1 }, lived_s: 2 }]);
    socket().bring({ figures: { main: { own_bytes: 3, shared_bytes: 4, lived_s: 5 } } });
    expect(lineage.view).toMatchObject({
      version: 1,
      branches: [{ facts: { name: 'main', own_bytes: 3, shared_bytes: 4 }, lived_s: 5 }]
    });
    socket().push(2, [{ facts: { name: 'main', own_bytes: 6 }, lived_s: 7 }]);
    expect(lineage.view?.branches[0]).toMatchObject({ facts: { own_bytes: 6 }, lived_s: 7 });
  });

  it('makes the next view of the last that was told whole, and of no figures', () => {
    const lineage = open('s');
    socket().push(1, [{ facts: { name: 'main', own_bytes: 1 }, lived_s: 2 }]);
    socket().bring({ figures: { main: { own_bytes: 3, shared_bytes: 4, lived_s: 5 } } });
    const other = { facts: { name: 'ridge' } };
    socket().bring({
      patch: { version: { value: 2 }, branches: { pieces: [[0, 1], { item: other }] } }
    });
    expect(lineage.view).toEqual({
      version: 2,
      session: 's',
      branches: [{ facts: { name: 'main', own_bytes: 1 }, lived_s: 2 }, other]
    });
  });

  it('says whether anybody looks, as soon as it can and whenever that changes', () => {
    open('s');
    const looks = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
    expect(socket().said).toEqual([]);
    socket().open();
    looks.mockReturnValue('visible');
    document.dispatchEvent(new Event('visibilitychange'));
    expect(socket().said).toEqual([{ seen: false }, { seen: true }]);
    looks.mockRestore();
  });

  it('keeps its last view while the connection is lost, and makes another', () => {
    const lineage = open('s');
    socket().push(1);
    socket().lose();
    expect([lineage.view?.version, lineage.connected]).toEqual([1, false]);
    vi.advanceTimersByTime(400);
    expect(FakeSocket.made).toHaveLength(2);
    socket().push(5);
    expect([lineage.view?.version, lineage.connected]).toEqual([5, true]);
  });

  it('is tried again within a second of a server that was started again', () => {
    open('s');
    for (let lost = 0; lost < 20; lost++) {
      socket().lose();
      vi.advanceTimersByTime(1000);
    }
    expect(FakeSocket.made).toHaveLength(21);
  });

  it('is tried less often once it has been away for long', () => {
    open('s');
    for (let lost = 0; lost < 10; lost++) {
      socket().lose();
      vi.advanceTimersByTime(10_000);
    }
    socket().lose();
    vi.advanceTimersByTime(3000);
    expect(FakeSocket.made).toHaveLength(11);
    vi.advanceTimersByTime(4000);
    expect(FakeSocket.made).toHaveLength(12);
  });

  it('is tried again at once when the network is back', () => {
    open('s');
    socket().lose();
    window.dispatchEvent(new Event('online'));
    window.dispatchEvent(new Event('online'));
    vi.advanceTimersByTime(400);
    expect(FakeSocket.made).toHaveLength(2);
  });

  it('is gone once it is on record no longer', () => {
    const lineage = open('s');
    socket().push(1);
    socket().lose(4404);
    vi.advanceTimersByTime(60_000);
    expect([lineage.gone, lineage.connected]).toEqual([true, false]);
    expect(FakeSocket.made).toHaveLength(1);
  });

  it('is gone if the server has no such session, which a refused websocket does not tell', async () => {
    const lineage = open('s');
    server.answer = () => json({ message: 'there is no session', hint: '' }, 404);
    socket().lose();
    await vi.waitFor(() => expect(lineage.gone).toBe(true));
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.made).toHaveLength(1);
  });

  it('is let go of, and heard of no more', () => {
    const lineage = open('s');
    const told = vi.fn();
    lineage.changed.connect(told);
    const last = socket();
    last.open();
    lineage.dispose();
    lineage.dispose();
    last.push(1);
    last.lose();
    window.dispatchEvent(new Event('online'));
    vi.advanceTimersByTime(60_000);
    expect([last.closed, lineage.view]).toEqual([true, null]);
    expect(told).not.toHaveBeenCalled();
    expect(FakeSocket.made).toHaveLength(1);
  });

  it('closes its socket not before that is open, of which a page would complain', () => {
    const lineage = open('s');
    const last = socket();
    lineage.dispose();
    expect(last.closed).toBe(false);
    last.open();
    expect(last.closed).toBe(true);
  });
});
