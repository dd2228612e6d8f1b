/** What stands above the tree: search, folding, the size of rows, table and details. */

import { button, el, Written } from './dom';

export const ZOOMS = ['compact', 'normal', 'large'] as const;
export type Zoom = (typeof ZOOMS)[number];

export class Controls {
  readonly element = el('div', 'bp-controls');
  readonly search = el('input', 'bp-input bp-search');
  private readonly count = new Written(el('span', 'bp-count'));
  private readonly table = new Written(button('Table', 'table', 'bp-tool'));
  private readonly details = new Written(button('Details', 'details', 'bp-tool'));
  private readonly size = new Written(button('Aa', 'zoom', 'bp-tool'));

  constructor() {
    this.element.setAttribute('role', 'group');
    this.element.setAttribute('aria-label', 'Tree');
    this.search.type = 'search';
    this.search.placeholder = 'Search (/)';
    this.search.setAttribute('aria-label', 'Search labels, notes, branches and cells');
    const here = button('Here', 'here', 'bp-tool');
    here.title = 'Go to where you are';
    const fold = button('Fold', 'fold-all', 'bp-tool');
    fold.title = 'Fold runs of automatic checkpoints, and branches that are not this one';
    const unfold = button('Unfold', 'unfold-all', 'bp-tool');
    unfold.title = 'Show every checkpoint';
    const searching = el('div', 'bp-searching');
    searching.append(this.search, this.count.node);
    const tools = el('div', 'bp-tools');
    tools.append(here, fold, unfold, this.size.node, this.table.node, this.details.node);
    this.table.attribute('title', 'Show as tables');
    this.details.attribute('title', 'Show what is selected');
    this.element.append(searching, tools);
  }

  show(zoom: Zoom, isTable: boolean, hasDetails: boolean, found: string): void {
    this.size.attribute('title', `Rows are ${zoom}: click for another size`);
    this.size.attribute('aria-label', `Size of rows: ${zoom}`);
    this.table.attribute('aria-pressed', String(isTable));
    this.details.attribute('aria-pressed', String(hasDetails));
    this.count.text(found);
  }
}
