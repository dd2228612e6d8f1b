import { beforeEach, expect, test, vi } from 'vitest';
import { drawAgain, type WidgetPlace } from '../src/widget_again';

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';
let node: HTMLElement;
let drawn: ReturnType<typeof vi.fn>;

beforeEach(() => {
  node = document.createElement('div');
  node.textContent = 'Error displaying widget: model not found';
  node.classList.add('jupyter-widgets');
  drawn = vi.fn(() => Promise.resolve());
});

function place(model: string): WidgetPlace {
  return {
    output: { data: { [WIDGET_VIEW]: { model_id: model } } },
    renderer: { node, renderModel: drawn as never }
  };
}

test('a place that has given up on the widget of the session is drawn again', () => {
  const ours = place('branchpoint-lineage-s1');
  expect(drawAgain([ours], 's1')).toBe(1);
  expect(drawn).toHaveBeenCalledWith(ours.output);
  expect(node.className).toBe('');
});

test('one that waits for it still is left to itself', () => {
  node.classList.remove('jupyter-widgets');
  expect(drawAgain([place('branchpoint-lineage-s1')], 's1')).toBe(0);
  expect(drawn).not.toHaveBeenCalled();
});

test('one that shows it is left as it is', () => {
  node.append(document.createElement('div'));
  expect(drawAgain([place('branchpoint-lineage-s1')], 's1')).toBe(0);
});

test('a widget of another session, of a program, or none at all is not looked for', () => {
  const text: WidgetPlace = {
    output: { data: { 'text/plain': 'x' } },
    renderer: place('').renderer
  };
  const others = [place('branchpoint-lineage-s10'), place('4f2a'), text];
  expect(drawAgain(others, 's1')).toBe(0);
});
