import { afterEach, beforeEach, expect, test } from 'vitest';
import { small } from '../../demo/sessions';
import type { Action, Refusal, Told } from '../../src/lineage/facts';
import { LineageTree } from '../../src/lineage/tree';

const TOLD: Told = { text: 'told', html: '<div><b>1 cell is undone</b></div>', record: {} };

let host: HTMLElement;
let tree: LineageTree;
let acted: Action[];
let answer: (told: Told) => void;
let refuse: (refusal: Refusal) => void;
let unwanted: AbortSignal | undefined;

function found(selector: string): HTMLElement {
  const node = host.querySelector<HTMLElement>(selector);
  if (node === null) {
    throw new Error(`there is no ${selector}`);
  }
  return node;
}

function press(key: string, selector: string): void {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
  found(`.bp-sheet ${selector}`).dispatchEvent(event);
}

function rollBack(): void {
  found('.bp-offering:not([hidden]) [data-do="rollback"]').click();
}

function without(): HTMLButtonElement {
  const buttons = [...host.querySelectorAll<HTMLButtonElement>('.bp-sheet-foot button')];
  const one = buttons.find(each => each.textContent === 'Roll back without looking');
  if (one === undefined) {
    throw new Error('there is no such button');
  }
  return one;
}

async function soon(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, 0));
}

/** Ask for a rollback; the look before it lasts until it is answered. */
function start(): void {
  tree.show(small());
  found('.bp-row[data-key="c:k1"]').click();
  rollBack();
}

beforeEach(() => {
  acted = [];
  host = document.createElement('div');
  document.body.append(host);
  tree = new LineageTree(host, {
    act: action => {
      acted.push(action);
      return new Promise((_, reject) => (refuse = reject));
    },
    ask: (_, signal) => {
      unwanted = signal;
      return new Promise(resolve => (answer = resolve));
    }
  });
});

afterEach(() => {
  tree.dispose();
  host.remove();
});

test('whoever does not want to wait for a look rolls back without it', async () => {
  start();
  expect(found('.bp-working').textContent).toBe('looking at what this undoes\u2026');
  found('.bp-go').click();
  press('Enter', 'input');
  expect(acted).toEqual([]);
  expect(unwanted?.aborted).toBe(false);
  without().click();
  expect(unwanted?.aborted).toBe(true);
  expect(acted).toEqual([{ op: 'rollback', target: 'k1', branch: 'boost', safety: true }]);
  expect(without().hidden).toBe(true);
  expect(document.activeElement).toBe(found('.bp-go'));
  answer(TOLD);
  await soon();
  // What was told too late is not of interest, and the sheet still waits for what is being done.
  expect(host.querySelector('.bp-told')).toBeNull();
  expect(found('.bp-sheet').getAttribute('aria-busy')).toBe('true');
  refuse({ message: 'the disk is full', hint: 'free some' });
  await soon();
  expect(found('.bp-sheet .bp-refusal').textContent).toContain('the disk is full');
  expect(found('.bp-go').getAttribute('aria-disabled')).toBe('false');
});

test('once it was looked there is nothing to go without, and a look that is closed is left', async () => {
  start();
  answer(TOLD);
  await soon();
  expect(without().hidden).toBe(true);
  expect(found('.bp-go').getAttribute('aria-disabled')).toBe('false');
  expect(found('.bp-told').textContent).toBe('1 cell is undone');
  press('Escape', '.bp-go');
  expect(host.querySelector('.bp-sheet')).toBeNull();
  rollBack();
  expect(unwanted?.aborted).toBe(false);
  press('Escape', '.bp-go');
  expect(unwanted?.aborted).toBe(true);
  expect(host.querySelector('.bp-sheet')).toBeNull();
  answer(TOLD);
  await soon();
  expect(acted).toEqual([]);
});
