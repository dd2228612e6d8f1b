/** What a `%lineage` widget runs in the page: the tree, kept as the kernel's process tells it. */
import type { LineageView } from './lineage/facts';
import { withFigures } from './lineage/figures';
import { LineageTree } from './lineage/tree';
import { onDeeds } from './page_deeds';
import { reachOf, Return } from './widget_return';
import { followPatches, KernelLineage, LOOK_EVERY_MS, type WidgetModel } from './widget_service';
import { Still } from './widget_still';

const STALE =
  'The kernel was restarted: this is how things were then. Run a cell with %lineage to go on.';
const ENDED = 'The kernel has ended: this is how things were then.';
const AWAY = 'The kernel cannot be reached: this is how things were when it last could.';
const WATCH_EVERY_MS = 500;

/** The places where a session is shown in this page: each takes another model, as a restart gives. */
type Places = Map<string, Set<(model: WidgetModel) => void>>;

/** Every model runs its own copy of this file, hence a place that all of them know. */
const PLACES = Symbol.for('branchpoint.lineage.places');

function places(): Places {
  const page = globalThis as unknown as Record<symbol, Places>;
  return (page[PLACES] ??= new Map());
}

/** One place where a widget is shown. */
class Place {
  private readonly element = document.createElement('div');
  private readonly stale = document.createElement('p');
  private readonly still: Still;
  private readonly sight: IntersectionObserver;
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly watching: ReturnType<typeof setInterval>;
  private readonly session: string;
  private readonly hearNoMore: () => void;
  private service: KernelLineage;
  private tree: LineageTree;
  private isInSight = false;
  private isDue = false;
  private isGone = false;
  private readonly return = new Return();

  constructor(
    private model: WidgetModel,
    host: HTMLElement
  ) {
    this.session = model.get('view').session;
    this.stale.setAttribute('role', 'status');
    this.stale.hidden = true;
    host.append(this.stale, this.element);
    this.still = new Still(host);
    this.service = new KernelLineage(model);
    this.tree = new LineageTree(this.element, this.service);
    this.listen();
    this.sight = new IntersectionObserver(([entry]) => this.note(entry?.isIntersecting ?? false));
    this.sight.observe(host);
    this.timer = setInterval(() => this.look(), LOOK_EVERY_MS);
    this.watching = setInterval(() => this.watch(), WATCH_EVERY_MS);
    document.addEventListener('visibilitychange', this.look);
    const here = places().get(this.session) ?? new Set();
    places().set(this.session, here.add(this.take));
    this.hearNoMore = onDeeds(this.session, this.drawSoon);
    this.draw();
  }

  dispose(): void {
    places().get(this.session)?.delete(this.take);
    this.hearNoMore();
    document.removeEventListener('visibilitychange', this.look);
    clearInterval(this.timer);
    clearInterval(this.watching);
    this.sight.disconnect();
    this.still.dispose();
    this.return.stop();
    this.leave();
  }

  /** Go on with another model of the same session. */
  private readonly take = (model: WidgetModel): void => {
    if (model === this.model) {
      return;
    }
    this.leave();
    this.model = model;
    this.isGone = false;
    this.say('');
    this.return.stop();
    this.service = new KernelLineage(model);
    this.tree = new LineageTree(this.element, this.service);
    this.listen();
    this.draw();
    this.look();
  };

  private listen(): void {
    this.model.on('change:view', this.drawSoon);
    this.model.on('change:figures', this.drawSoon);
    this.model.on('comm_live_update', this.noteGone);
  }

  private leave(): void {
    this.model.off('change:view', this.drawSoon);
    this.model.off('change:figures', this.drawSoon);
    this.model.off('comm_live_update', this.noteGone);
    this.tree.dispose();
    this.service.dispose();
  }

  private note(isInSight: boolean): void {
    this.isInSight = isInSight;
    this.still.hide();
    this.look();
  }

  private readonly look = (): void => {
    if (this.isInSight && document.visibilityState === 'visible' && this.stale.hidden) {
      this.service.look();
    }
  };

  private readonly noteGone = (): void => {
    this.isGone = true;
    this.say(STALE);
    this.service.giveUp();
    this.return.start(this.model);
  };

  /** A kernel that went with its server, or was shut down, says nothing of it. */
  private watch(): void {
    const reach = reachOf(this.model);
    if (reach === 'ended' && !this.isGone) {
      this.noteGone();
    }
    if (this.isGone) {
      this.say(reach === 'ended' ? ENDED : STALE);
    } else {
      this.say(reach === 'away' ? AWAY : '');
    }
  }

  private say(words: string): void {
    if (this.stale.textContent !== words) {
      this.stale.textContent = words;
    }
    this.stale.hidden = words === '';
  }

  /** The view and the figures may change in one message, each with its own event. */
  private readonly drawSoon = (): void => {
    if (!this.isDue) {
      this.isDue = true;
      queueMicrotask(() => this.draw());
    }
  };

  private draw(): void {
    this.isDue = false;
    this.tree.show(withFigures(this.model.get('view'), this.model.get('figures')));
  }
}

/** A new model: the places that showed the same session go on with it. */
function initialize({ model }: { model: WidgetModel }): void {
  followPatches(model);
  const view: LineageView = model.get('view');
  for (const take of places().get(view.session) ?? []) {
    take(model);
  }
}

/** A new place; what is given back ends it. */
function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const place = new Place(model, el);
  return () => place.dispose();
}

export default { initialize, render };
