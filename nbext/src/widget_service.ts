/** Asks the kernel's process at the widget's comm; each question has a number, and so its answer. */
import type {
  Action,
  CellText,
  LineageService,
  LineageView,
  PageDeeds,
  Question,
  Refusal,
  Told
} from './lineage/facts';
import type { Figures } from './lineage/figures';
import { type Patch, patched } from './lineage/patches';
import { deedsFor } from './page_deeds';

/** What the page's part of a widget is, as anywidget hands it over. */
export interface WidgetModel {
  get(name: 'view'): LineageView;
  get(name: 'figures'): Figures;
  set(name: 'view', view: LineageView): void;
  set(name: 'figures', figures: Figures): void;
  on(event: string, heard: (...told: never[]) => void): void;
  off(event: string, heard: (...told: never[]) => void): void;
  send(content: unknown): void;
  readonly widget_manager?: unknown;
}

interface Answer {
  id: string;
  done?: Record<string, unknown>;
  refused?: Refusal;
}

interface Waiting {
  resolve(done: Record<string, unknown>): void;
  reject(refusal: Refusal): void;
}

/** What a model is told for itself: how its next view is another than the one before. */
interface ToldPatch {
  patch?: Patch;
  of?: number;
}

/** Have a model's view patched as its kernel tells; once for each model, however many show it. */
export function followPatches(model: WidgetModel): void {
  model.on('msg:custom', ({ patch, of = 0 }: ToldPatch) => {
    const view = model.get('view');
    if (patch !== undefined && view.version === of) {
      model.set('view', patched(view, patch));
      model.set('figures', {});
    } else if (patch !== undefined && view.version < of) {
      model.send({ op: 'whole' });
    }
  });
}

const GONE: Refusal = {
  message: 'the kernel that this was asked of is no longer there',
  hint: 'run the cell again'
};

/** Whatever is in sight says so as often as this, and whoever is not is told nothing any more. */
export const LOOK_EVERY_MS = 30_000;

export class KernelLineage implements LineageService {
  private readonly waiting = new Map<string, Waiting>();
  // Every page hears every answer. A page that is not served safely has no randomUUID.
  private readonly asker = Math.random().toString(36).slice(2);
  private readonly session: string;
  private asked = 0;

  constructor(private readonly model: WidgetModel) {
    this.session = model.get('view').session;
    model.on('msg:custom', this.hear);
  }

  /** Where the page is JupyterLab with our extension, and has the notebook open. */
  get page(): PageDeeds | undefined {
    return deedsFor(this.session);
  }

  act(action: Action): Promise<Record<string, unknown>> {
    return this.send(action);
  }

  async ask(question: Question): Promise<Told | CellText[]> {
    const done = await this.send(question);
    return (question.op === 'cells' ? done['cells'] : done) as Told | CellText[];
  }

  /** Say that it is in sight. */
  look(): void {
    this.model.send({ op: 'look', patches: true });
  }

  /** Nothing more will be answered. */
  giveUp(): void {
    for (const { reject } of this.waiting.values()) {
      reject(GONE);
    }
    this.waiting.clear();
  }

  dispose(): void {
    this.model.off('msg:custom', this.hear);
    this.giveUp();
  }

  private send(asked: Action | Question): Promise<Record<string, unknown>> {
    this.asked += 1;
    const id = `${this.asker}-${this.asked}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.model.send({ id, ...asked });
    });
  }

  private readonly hear = (answer: Answer): void => {
    const waiting = this.waiting.get(answer.id);
    this.waiting.delete(answer.id);
    if (answer.refused) {
      waiting?.reject(answer.refused);
    } else {
      waiting?.resolve(answer.done ?? {});
    }
  };
}
