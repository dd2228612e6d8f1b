/** A question put to whoever acts: filled in, confirmed, refused in words, or closed again. */

import type { Refusal } from './facts';
import { button, el, focusedBeside, Written } from './dom';

// Each widget runs a copy of this module of its own, and ids are the page's.
const copy = Math.random().toString(36).slice(2);
let made = 0;

export class Sheet {
  readonly element = el('form', 'bp-sheet');
  readonly body = el('div', 'bp-sheet-body');
  /** Who waits for this sheet to be done with it. */
  onGo: (() => void) | null = null;
  onClose: (() => void) | null = null;
  private readonly trouble = el('div', 'bp-refusal');
  private readonly go: HTMLButtonElement | null;
  private readonly goes: Written | null;
  private readonly state = el('span', 'bp-working');
  private readonly meanwhile = button('', '', 'bp-button');
  private readonly looking = new AbortController();
  private isLooking = false;

  /** `go` are the words of the button that does it; null for what is only read. */
  constructor(title: string, goWords: string | null, isGrave = false) {
    this.element.setAttribute('aria-label', title);
    this.element.noValidate = true;
    this.trouble.setAttribute('role', 'alert');
    this.trouble.hidden = true;
    const close = button(goWords === null ? 'Close' : 'Cancel', '');
    const foot = el('div', 'bp-sheet-foot');
    this.go = goWords === null ? null : button(goWords, '', 'bp-button bp-go');
    this.goes = this.go === null ? null : new Written(this.go);
    if (this.go !== null) {
      this.go.addEventListener('click', () => this.submit());
      this.go.classList.toggle('bp-grave', isGrave);
      foot.append(this.go);
    }
    this.meanwhile.hidden = true;
    this.meanwhile.addEventListener('click', () => this.onGo?.());
    foot.append(close, this.meanwhile, this.state);
    this.element.append(el('h3', 'bp-sheet-title', title), this.body, this.trouble, foot);
    this.element.addEventListener('submit', event => event.preventDefault());
    this.element.addEventListener('keydown', event => this.onKey(event));
    close.addEventListener('click', () => this.onClose?.());
  }

  private submit(): void {
    if (this.go !== null && this.go.getAttribute('aria-disabled') !== 'true') {
      this.onGo?.();
    }
  }

  /** A page may keep Enter from submitting a form, as JupyterLab does: so that is done here. */
  private onKey(event: KeyboardEvent): void {
    const isLine = event.target instanceof HTMLInputElement;
    const isAsked = isLine || event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && isAsked && !event.isComposing) {
      event.preventDefault();
      event.stopPropagation();
      this.submit();
    }
  }

  /** A line to fill in. */
  field(words: string, kind: 'text' | 'number', value: string, hint = ''): HTMLInputElement {
    const input = el('input', 'bp-input');
    input.type = kind;
    input.value = value;
    input.autocomplete = 'off';
    input.spellcheck = false;
    this.labelled(words, input, hint);
    return input;
  }

  area(words: string, value: string): HTMLTextAreaElement {
    const input = el('textarea', 'bp-input');
    input.rows = 3;
    input.value = value;
    this.labelled(words, input, '');
    return input;
  }

  check(words: string, checked: boolean): HTMLInputElement {
    const input = el('input');
    input.type = 'checkbox';
    input.checked = checked;
    const label = el('label', 'bp-check');
    label.append(input, words);
    this.body.append(label);
    return input;
  }

  say(words: string, className = 'bp-said'): HTMLParagraphElement {
    const line = el('p', className, words);
    this.body.append(line);
    return line;
  }

  /** Whether what is looked at is still of interest. */
  get looks(): boolean {
    return this.isLooking;
  }

  /** Aborted as soon as what is looked at is of interest no more. */
  get unwanted(): AbortSignal {
    return this.looking.signal;
  }

  /** It is closed. */
  leave(): void {
    this.looking.abort();
    this.element.remove();
  }

  /**
   * Something is being looked at that is better known before going on, which may take minutes:
   * whoever does not want to wait has a button that says so. It is not where the focus is, and
   * Enter does not press it.
   */
  look(words: string, without: string): void {
    this.working(words);
    this.isLooking = true;
    this.meanwhile.textContent = without;
    this.meanwhile.hidden = without === '';
  }

  /** It has been looked at. */
  hasLooked(): void {
    this.stopLooking();
    this.working(null);
  }

  private stopLooking(): void {
    const hadFocus = focusedBeside(this.element) === this.meanwhile;
    this.isLooking = false;
    this.looking.abort();
    this.meanwhile.hidden = true;
    if (hadFocus) {
      this.go?.focus();
    }
  }

  /** Something is being done or waited for; null when it is over. */
  working(words: string | null): void {
    if (this.isLooking) {
      this.stopLooking();
    }
    this.state.textContent = words ?? '';
    this.state.classList.toggle('bp-spins', words !== null);
    this.element.setAttribute('aria-busy', String(words !== null));
    // Disabled for real it would lose the focus, and with it whoever steers by keys.
    this.go?.setAttribute('aria-disabled', String(words !== null));
  }

  goesBy(words: string): void {
    this.goes?.text(words);
  }

  refuse(refusal: Refusal): void {
    this.trouble.replaceChildren(...refusalLines(refusal));
    this.trouble.hidden = false;
    this.trouble.scrollIntoView?.({ block: 'nearest' });
  }

  forgive(): void {
    this.trouble.hidden = true;
    this.trouble.replaceChildren();
  }

  focus(): void {
    const first = this.body.querySelector<HTMLElement>('input:not([type=checkbox]), textarea');
    (first ?? this.go ?? this.element.querySelector<HTMLElement>('button'))?.focus();
    if (first instanceof HTMLInputElement) {
      first.select();
    }
  }

  private labelled(words: string, input: HTMLElement, hint: string): void {
    made += 1;
    input.id = `bp-field-${copy}-${made}`;
    const label = el('label', 'bp-label', words);
    label.htmlFor = input.id;
    this.body.append(label, input);
    if (hint) {
      const line = el('p', 'bp-hint', hint);
      line.id = `${input.id}-hint`;
      input.setAttribute('aria-describedby', line.id);
      this.body.append(line);
    }
  }
}

export function refusalLines(refusal: Refusal): HTMLElement[] {
  const lines = [el('p', 'bp-refused', refusal.message)];
  if (refusal.hint) {
    lines.push(el('p', 'bp-hint', refusal.hint));
  }
  return lines;
}
