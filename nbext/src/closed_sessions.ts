/**
 * The list below the tree: sessions whose notebooks are closed, one of which can be looked at. Their
 * kernels may run still: JupyterLab ends none when a notebook is closed.
 */
import type { SessionOverview } from './api';
import type { KernelKind } from './follow';
import { arrange, el, Written } from './lineage/dom';
import { counted, size, when } from './lineage/formats';

export interface ClosedSessionsOptions {
  /** Show the tree of one. */
  choose(session: SessionOverview): void;
}

/** What is known of a notebook of this page; a FollowedNotebook is one. */
export interface OpenNotebook {
  kernel: KernelKind;
  lineage: { session: string } | null;
  panel: { context: { localPath: string } };
}

interface Row {
  item: HTMLLIElement;
  button: Written;
  name: Written;
  folder: Written;
  facts: Written;
}

/** A list of buttons; a row stays the same element while its session is listed. */
export class ClosedSessions {
  readonly node = el('section', 'bp-Closed');
  private readonly list = el('ul', 'bp-Closed-list');
  private readonly empty = el('p', 'bp-Closed-empty', 'None yet.');
  private readonly rows = new Map<string, Row>();
  private sessions: readonly SessionOverview[] = [];

  constructor(private readonly options: ClosedSessionsOptions) {
    const heading = el('h2', 'bp-Closed-heading', 'Other sessions');
    this.node.append(heading, this.list, this.empty);
  }

  /** `chosen` is the one whose tree is shown above. */
  show(sessions: readonly SessionOverview[], chosen: string | null): void {
    this.sessions = sessions;
    this.empty.hidden = sessions.length > 0;
    arrange(
      this.list,
      sessions.map(session => this.row(session, session.id === chosen))
    );
    const listed = new Set(sessions.map(({ id }) => id));
    for (const id of this.rows.keys()) {
      if (!listed.has(id)) {
        this.rows.delete(id);
      }
    }
  }

  private row(session: SessionOverview, isChosen: boolean): HTMLLIElement {
    const row = this.rows.get(session.id) ?? this.made(session.id);
    const { name, folder } = placeOf(session);
    row.name.text(name);
    row.folder.text(folder);
    row.facts.text(factsOf(session));
    row.button.attribute('title', session.key);
    row.button.attribute('aria-pressed', String(isChosen));
    return row.item;
  }

  private made(id: string): Row {
    const item = el('li');
    const button = el('button', 'bp-Closed-session');
    const parts = ['name', 'folder', 'facts'].map(part => el('span', `bp-Closed-${part}`));
    button.type = 'button';
    button.append(...parts);
    button.addEventListener('click', () => {
      const session = this.sessions.find(one => one.id === id);
      if (session !== undefined) {
        this.options.choose(session);
      }
    });
    item.append(button);
    const [name, folder, facts] = parts.map(part => new Written(part)) as [
      Written,
      Written,
      Written
    ];
    const row = { item, button: new Written(button), name, folder, facts };
    this.rows.set(id, row);
    return row;
  }
}

/** Those that no notebook of this page has, newest first. */
export function notShown(
  sessions: readonly SessionOverview[],
  notebooks: readonly OpenNotebook[]
): SessionOverview[] {
  const ids = new Set(notebooks.map(({ lineage }) => lineage?.session));
  // One whose kernel is just beginning is not known to have the session that it will have.
  const beginning = notebooks.filter(
    ({ kernel, lineage }) => lineage === null && kernel !== 'other'
  );
  const paths = new Set<string | null>(beginning.map(({ panel }) => panel.context.localPath));
  return sessions.filter(({ id, path }) => !ids.has(id) && !paths.has(path)).toReversed();
}

/** The file and the folder of a session's notebook, as the server names them if it is one of its. */
export function placeOf({ key, path }: Pick<SessionOverview, 'key' | 'path'>): {
  name: string;
  folder: string;
} {
  const whole = path ?? key;
  const slash = whole.lastIndexOf('/');
  const folder = slash < 0 ? '' : whole.slice(0, slash) || '/';
  return { name: whole.slice(slash + 1), folder };
}

function factsOf(session: SessionOverview): string {
  const parts = [counted(session.checkpoints, 'checkpoint'), size(session.disk_bytes)];
  if (session.newest_at !== null) {
    parts.unshift(when(session.newest_at));
  }
  if (session.open) {
    parts.unshift('running');
  }
  return parts.join(' · ');
}
