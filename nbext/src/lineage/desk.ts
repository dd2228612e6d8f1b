/** The place beside the rows: what is selected, what can be done with it, what is being asked. */

import type { LineageView, Refusal } from './facts';
import { type Deed, type Offer, type Offers } from './actions';
import type { Desk } from './deeds';
import { Details } from './details';
import { button, el, focusedBeside, Written } from './dom';
import type { Subject } from './layout';
import { refusalLines, type Sheet } from './sheet';

export class SideDesk implements Desk {
  readonly element = el('section', 'bp-desk');
  /** Called when a sheet was closed; whether it had the focus. */
  onDone: (hadFocus: boolean) => void = () => {};
  private readonly sheets = el('div', 'bp-sheets');
  private readonly message = el('div', 'bp-message');
  private readonly details = new Details();
  private readonly ofCheckpoint = new Offering('Checkpoint');
  private readonly ofBranch = new Offering('Branch');
  private open: Sheet | null = null;

  constructor(private readonly sayAloud: (words: string) => void) {
    this.element.setAttribute('aria-label', 'Selected');
    this.message.hidden = true;
    const buttons = el('div', 'bp-offers');
    buttons.append(this.ofCheckpoint.element, this.ofBranch.element);
    const { head, parts } = this.details;
    this.element.append(this.message, this.sheets, head, buttons, parts);
  }

  get isAsking(): boolean {
    return this.open !== null;
  }

  show(subject: Subject, view: LineageView, offers: Offers): void {
    const branch = subject.kind === 'tip' ? subject.branch : null;
    const name =
      branch?.facts.name ?? (subject.kind === 'checkpoint' ? subject.checkpoint.facts.branch : '');
    this.ofCheckpoint.show('', offers.checkpoint);
    this.ofBranch.show(subject.kind === 'tip' ? '' : name, offers.branch);
    this.details.show(subject, view);
  }

  lay(sheet: Sheet): void {
    this.open?.leave();
    this.open = sheet;
    sheet.onClose = () => this.clear(sheet);
    this.quieten();
    this.sheets.replaceChildren(sheet.element);
    this.element.scrollTop = 0;
    sheet.focus();
  }

  clear(sheet: Sheet): void {
    if (this.open !== sheet) {
      return;
    }
    const hadFocus = sheet.element.contains(focusedBeside(sheet.element));
    this.open = null;
    sheet.leave();
    this.onDone(hadFocus);
  }

  close(): boolean {
    if (this.open === null) {
      return this.quieten();
    }
    this.clear(this.open);
    return true;
  }

  announce(words: string): void {
    this.message.className = 'bp-message';
    this.message.removeAttribute('role');
    this.message.replaceChildren(el('p', '', words), dismiss());
    this.message.hidden = false;
    this.sayAloud(words);
  }

  refuse(refusal: Refusal): void {
    this.message.className = 'bp-message bp-refusal';
    this.message.setAttribute('role', 'alert');
    this.message.replaceChildren(...refusalLines(refusal), dismiss());
    this.message.hidden = false;
    this.element.scrollTop = 0;
  }

  quieten(): boolean {
    const was = !this.message.hidden;
    this.message.hidden = true;
    this.message.replaceChildren();
    return was;
  }
}

function dismiss(): HTMLButtonElement {
  const node = button('\u00d7', 'quieten', 'bp-dismiss');
  node.setAttribute('aria-label', 'Dismiss');
  return node;
}

/** A row of buttons, kept as they are while they mean the same. */
class Offering {
  readonly element = el('div', 'bp-offering');
  private readonly name = new Written(el('span', 'bp-offering-name'));
  private readonly buttons = new Map<Deed, { node: HTMLButtonElement; written: Written }>();
  private order = '';

  constructor(private readonly group: string) {
    this.element.setAttribute('role', 'group');
    this.element.dataset['group'] = group.toLowerCase();
  }

  show(name: string, offers: readonly Offer[]): void {
    this.element.hidden = offers.length === 0;
    this.name.text(name);
    this.element.setAttribute('aria-label', name ? `${this.group} ${name}` : this.group);
    const order = offers.map(({ deed }) => deed).join();
    for (const offer of offers) {
      let there = this.buttons.get(offer.deed);
      if (there === undefined) {
        const node = button('', offer.deed);
        there = { node, written: new Written(node) };
        this.buttons.set(offer.deed, there);
      }
      there.written.text(offer.words);
      there.written.attribute('title', offer.why);
      // Not disabled for real: the reason is to be read, by the keyboard too.
      there.written.attribute('aria-disabled', offer.can ? null : 'true');
    }
    if (order !== this.order) {
      this.order = order;
      const nodes = offers.flatMap(({ deed }) => this.buttons.get(deed)?.node ?? []);
      this.element.replaceChildren(this.name.node, ...nodes);
    }
  }
}
