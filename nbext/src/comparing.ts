/** Two branches' notebooks side by side with their differences, in a tab of their own. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';
import { COMMANDS, complain } from './acting';
import { joined } from './alignment';
import type { ServerLineage } from './api';
import { askBranch } from './asking';
import type { Compared, Side } from './comparing_table';
import { type Comparable, Comparison } from './comparison';
import { type FollowedNotebook, IFollowing } from './follow';
import { lineageIcon } from './icons';
import type { BranchView, CellText, LineageView, Question, Refusal } from './lineage/facts';
import { stateWords } from './lineage/formats';
import { partedAt } from './parting';
import { documentOf } from './whose_document';

/** In pixels: what is narrower shows neither of two columns well. */
const NARROWEST = 450;

/** Two branches of a session. */
interface Wish {
  session: string;
  left: string;
  right: string;
}

/** Asks for what is compared: the session, and the notebooks that are open in this page. */
export class Branches implements Comparable {
  readonly changed;
  private readonly lineage: ServerLineage;
  private readonly closed = new AbortController();

  constructor(
    private readonly following: IFollowing,
    readonly wish: Wish
  ) {
    this.lineage = following.server.open(wish.session);
    this.changed = this.lineage.changed;
  }

  get names(): Record<Side, string> {
    return { left: this.wish.left, right: this.wish.right };
  }

  /** What a comparison rests on; another when it is out of date. */
  get state(): string {
    const { view } = this.lineage;
    const { left, right } = this.wish;
    const branches = view?.branches.filter(({ facts }) => [left, right].includes(facts.name));
    const told = branches?.map(({ facts }) => [facts.name, facts.head, facts.state]);
    return view === null ? '' : JSON.stringify([told, view.current, view.line]);
  }

  async side(side: Side): Promise<{ compared: Compared; panel: NotebookPanel | null }> {
    const view = this.lineage.view ?? (await this.following.server.view(this.wish.session));
    const branch = found(view, this.names[side]);
    const { name, state } = branch.facts;
    const cells = await cellsOf(this.lineage, name);
    const notebook = documentOf(this.following.all, view, branch);
    // A notebook that another session carries on has cells that this session does not know of.
    const other = state === 'lent' ? notebook : null;
    const since =
      other?.lineage && other.view?.current
        ? await cellsOf(other.lineage, other.view.current)
        : null;
    return {
      compared: {
        name,
        words: `${stateWords(state)}, ${outputsWords(notebook)}`,
        cells: since === null ? cells : joined(cells, since),
        begun: await this.begun(view)
      },
      panel: notebook?.panel ?? null
    };
  }

  /** How many cells ran before the two parted; any number where that is not on record. */
  private async begun(view: LineageView): Promise<number> {
    const parting = partedAt(view, this.wish.left, this.wish.right);
    return parting === null ? Infinity : (await cellsOf(this.lineage, parting)).length;
  }

  async diff(): Promise<string> {
    const { left, right } = this.wish;
    const question: Question = { op: 'diff', before: left, after: right };
    const told = await this.lineage.ask(question, this.closed.signal);
    return Array.isArray(told) ? '' : told.html;
  }

  dispose(): void {
    this.closed.abort();
    this.lineage.dispose();
  }
}

export const comparing: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:comparing',
  description: "Shows two branches' notebooks side by side with their differences.",
  autoStart: true,
  requires: [IFollowing],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, following: IFollowing, palette: ICommandPalette | null) => {
    app.commands.addCommand(COMMANDS.compare, {
      label: 'Compare Branches…',
      caption:
        'See the cells of two branches side by side, and what differs between their machines',
      icon: lineageIcon,
      isEnabled: args => isWish(args) || choices(following).length > 0,
      execute: async args => {
        try {
          const wish = isWish(args) ? args : await askWish(following);
          if (wish !== null) {
            show(app, following, wish);
          }
          return wish !== null;
        } catch (error) {
          complain(error);
          return false;
        }
      }
    });
    palette?.addItem({ command: COMMANDS.compare, category: 'Branchpoint' });
  }
};

/** Open a comparison, or the one there is. */
function show(app: JupyterFrontEnd, following: IFollowing, wish: Wish): void {
  const { session, left, right } = wish;
  const id = `bp-compare-${JSON.stringify([session, left, right])}`;
  const open = [...app.shell.widgets('main'), ...app.shell.widgets('right')].find(
    widget => widget.id === id
  );
  if (open === undefined) {
    const content = new Comparison(new Branches(following, wish));
    const widget = new MainAreaWidget({ content });
    widget.id = id;
    widget.title.label = `${left} and ${right}`;
    widget.title.caption = `Branches ${left} and ${right}, side by side`;
    widget.title.icon = lineageIcon;
    widget.title.closable = true;
    app.shell.add(widget, 'main', placeFor(app.shell.widgets('main')));
    if (!widget.isAttached) {
      // Notebook 7 has one document a page; beside it is a place, and whoever likes widens it.
      app.shell.add(widget, 'right');
    }
  } else if (open instanceof MainAreaWidget && open.content instanceof Comparison) {
    void open.content.refresh();
  }
  app.shell.activateById(id);
}

/** Beside the widest of what is seen, if half of it is room enough; else above it, in another tab. */
function placeFor(widgets: Iterable<Widget>): DocumentRegistry.IOpenOptions {
  const seen = [...widgets].filter(({ isVisible }) => isVisible);
  const widths = new Map(seen.map(widget => [widget.id, widget.node.offsetWidth]));
  const [ref, width] = [...widths].reduce(
    (one, other) => (other[1] > one[1] ? other : one),
    ['', 0]
  );
  return ref === '' ? {} : { ref, mode: width >= 2 * NARROWEST ? 'split-right' : 'tab-after' };
}

/** The branches that the one of the notebook in front can be compared with. */
function choices({ current }: IFollowing): string[] {
  const view = current?.view;
  return (view?.branches ?? [])
    .map(({ facts }) => facts)
    .filter(({ name, state }) => name !== view?.current && state !== 'dropped')
    .map(({ name }) => name);
}

async function askWish(following: IFollowing): Promise<Wish | null> {
  const view = following.current?.view;
  const left = view?.current;
  if (!view || !left) {
    return null;
  }
  const right = await askBranch(`Compare ${left} with`, 'Compare', choices(following));
  return right === null ? null : { session: view.session, left, right };
}

function isWish(args: object): args is Wish {
  const { session, left, right } = args as Partial<Record<keyof Wish, unknown>>;
  return [session, left, right].every(name => typeof name === 'string' && name !== '');
}

function found(view: LineageView, name: string): BranchView {
  const branch = view.branches.find(({ facts }) => facts.name === name);
  if (branch === undefined) {
    const names = view.branches.map(({ facts }) => facts.name).join(', ');
    const refusal: Refusal = {
      message: `There is no branch ${name}.`,
      hint: `There are: ${names}`
    };
    throw Object.assign(new Error(refusal.message), refusal);
  }
  return branch;
}

async function cellsOf(lineage: ServerLineage, of: string): Promise<CellText[]> {
  const cells = await lineage.ask({ op: 'cells', of });
  return Array.isArray(cells) ? cells : [];
}

function outputsWords(notebook: FollowedNotebook | null): string {
  return notebook === null
    ? 'no notebook of it is open here, so its outputs are not shown'
    : `outputs as in ${notebook.panel.title.label}`;
}
