/** Which places of the widget of `%lineage` have given up on it, and have it drawn there. Pure. */
import type { IOutputModel, IRenderMime } from '@jupyterlab/rendermime';

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';
/** What a place has itself once it says that there is no widget. */
const GIVEN_UP = 'jupyter-widgets';

/** A place for a widget: its output, and what shows it. */
export interface WidgetPlace {
  readonly output: Pick<IOutputModel, 'data'>;
  readonly renderer: Pick<IRenderMime.IRenderer, 'node' | 'renderModel'>;
}

/** Have those drawn that gave up on the widget of a session; how many there were. */
export function drawAgain(places: readonly WidgetPlace[], session: string): number {
  const ours = places.filter(place => isOf(place, session) && hasGivenUp(place));
  for (const { output, renderer } of ours) {
    renderer.node.classList.remove(GIVEN_UP);
    void renderer.renderModel(output as IOutputModel);
  }
  return ours.length;
}

/** As `LineageHost` names it. */
function isOf({ output }: WidgetPlace, session: string): boolean {
  const view = output.data[WIDGET_VIEW] as { model_id?: unknown } | undefined;
  return view?.model_id === `branchpoint-lineage-${session}`;
}

function hasGivenUp({ renderer }: WidgetPlace): boolean {
  const { node } = renderer;
  return node.classList.contains(GIVEN_UP) && node.childElementCount === 0;
}
