/**
 * Draws the widget of `%lineage` where JupyterLab gave up on it: its widget manager waits 2 s for a
 * model, and overlooks one that comes with the last tenth of them.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import { Panel } from '@lumino/widgets';
import { type FollowedNotebook, IFollowing } from './follow';
import { drawAgain, type WidgetPlace } from './widget_again';

/** A page that is loaded on a busy computer, with a kernel that has just begun, takes a while. */
const LOOK_EVERY_MS = 2000;
const LOOKS = 15;
const TRIES = 3;

/** The outputs of a notebook, with what shows them. */
function placesIn({ panel }: FollowedNotebook): WidgetPlace[] {
  const cells = panel.content.widgets.filter(cell => cell instanceof CodeCell);
  return cells.flatMap(({ outputArea }) =>
    outputArea.widgets.flatMap((shown, at) => {
      // Beside what shows an output stands its number.
      const parts = shown instanceof Panel ? shown.widgets : [shown];
      const renderer = parts.find(it => 'renderModel' in it) as WidgetPlace['renderer'] | undefined;
      const isThere = renderer !== undefined && at < outputArea.model.length;
      return isThere ? [{ output: outputArea.model.get(at), renderer }] : [];
    })
  );
}

/** Looks for such places in a notebook for a while after each kernel that comes. */
class Looking {
  private left = 0;
  private kernel: string | null = null;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly notebook: FollowedNotebook) {
    notebook.changed.connect(this.begin, this);
    notebook.panel.disposed.connect(() => clearInterval(this.timer));
    this.begin();
  }

  private begin(): void {
    const kernel = this.notebook.panel.sessionContext.session?.kernel?.id ?? null;
    if (!this.notebook.steerable || kernel === this.kernel) {
      return;
    }
    this.kernel = kernel;
    this.left = LOOKS;
    clearInterval(this.timer);
    this.timer = setInterval(() => this.look(), LOOK_EVERY_MS);
  }

  private look(): void {
    const { view } = this.notebook;
    const tried = view === null ? 0 : drawAgain(placesIn(this.notebook), view.session);
    // A kernel that has none is not asked for ever; each time is a complaint in the page's log.
    this.left -= tried > 0 ? LOOKS / TRIES : 1;
    if (this.left <= 0) {
      clearInterval(this.timer);
    }
  }
}

export const placing: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:widget-places',
  description: 'Draws the widget of %lineage where it was there only just too late.',
  autoStart: true,
  requires: [IFollowing],
  activate: (_app: JupyterFrontEnd, following: IFollowing) => {
    const look = (notebook: FollowedNotebook): Looking => new Looking(notebook);
    following.all.forEach(look);
    following.added.connect((_, notebook) => void look(notebook));
  }
};
