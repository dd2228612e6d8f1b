/**
 * Hides the picture and the tables that stand below a widget in the same cell: they are for who has
 * no widget. JupyterLab and Notebook keep the outputs of a cell side by side, each in a box.
 */
const OUTPUT = '.jp-OutputArea-child';
/** As `TABLE_CLASS` in branchpoint_kernel/lineage_still.py: it is in the last of them. */
const LAST = '.branchpoint-lineage-table';

export class Still {
  private readonly hidden = new Set<HTMLElement>();
  private watched: MutationObserver | null = null;

  constructor(private readonly element: HTMLElement) {}

  /** Hide them, now and when they come; where the element is not in a page yet, nothing. */
  hide(): void {
    const output = this.element.closest<HTMLElement>(OUTPUT);
    const outputs = output?.parentElement;
    if (!output || !outputs || this.watched) {
      return;
    }
    // A picture that is drawn later comes in the place of a line of text.
    const watched = new MutationObserver(() => {
      if (this.hideBelow(output)) {
        watched.observe(outputs, { childList: true });
      }
    });
    this.watched = watched;
    watched.observe(outputs, { childList: true, subtree: !this.hideBelow(output) });
  }

  /** Show them again. */
  dispose(): void {
    this.watched?.disconnect();
    for (const output of this.hidden) {
      output.style.removeProperty('display');
    }
  }

  /** Whether they are there. What a cell shows besides is none of ours. */
  private hideBelow(output: HTMLElement): boolean {
    const below: HTMLElement[] = [];
    for (let next = output.nextElementSibling; next; next = next.nextElementSibling) {
      below.push(next as HTMLElement);
      if (next.querySelector(LAST)) {
        for (const each of below) {
          each.style.setProperty('display', 'none');
          this.hidden.add(each);
        }
        return true;
      }
    }
    return false;
  }
}
