import { Signal } from '@lumino/signaling';
import { expect, test, vi } from 'vitest';
import { type Document, saveInTurn, savedFirst } from '../src/saving';

/** A document that is saved as JupyterLab does: content first, one request, clean at the end. */
class Edited implements Document {
  readonly contentChanged = new Signal<this, void>(this);
  readonly saveState = new Signal<this, string>(this);
  readonly model = { dirty: true, contentChanged: this.contentChanged };
  contentsModel = { writable: true };
  text = 'edited';
  file = '';
  /** Saves under way, each with what answers its request. */
  readonly requests: { answer: () => void; refuse: (error: Error) => void }[] = [];

  edit(text: string): void {
    this.text = text;
    this.model.dirty = true;
    this.contentChanged.emit();
  }

  async save(): Promise<void> {
    this.saveState.emit('started');
    const { text } = this;
    await new Promise<void>((answer, refuse) => this.requests.push({ answer, refuse }));
    this.file = text;
    this.model.dirty = false;
    this.saveState.emit('completed');
  }

  /** Answer the request of one save, once it has been made. */
  async answered(number: number): Promise<void> {
    await vi.waitFor(() => expect(this.requests.length).toBeGreaterThan(number));
    this.requests[number]?.answer();
  }
}

test('what has edits is saved, and nothing is asked', async () => {
  const document = new Edited();
  const ask = vi.fn(async () => false);
  const saved = savedFirst(document, ask);
  await document.answered(0);
  expect(await saved).toBe(true);
  expect(document.file).toBe('edited');
  expect(ask).not.toHaveBeenCalled();
});

test('what has none is not written again', async () => {
  const document = new Edited();
  document.model.dirty = false;
  expect(await savedFirst(document, async () => false)).toBe(true);
  expect(document.requests).toEqual([]);
});

test.each([
  [
    'cannot be saved',
    async () => {
      throw new Error('no space left');
    }
  ],
  ['is not saved after all', async () => {}]
])('whoever has a document that %s decides', async (_, save) => {
  const document = Object.assign(new Edited(), { save });
  expect(await savedFirst(document, async () => true)).toBe(true);
  expect(await savedFirst(document, async () => false)).toBe(false);
});

test('a document that may not be written is not tried', async () => {
  const document = Object.assign(new Edited(), { contentsModel: { writable: false } });
  expect(await savedFirst(document, async () => false)).toBe(false);
  expect(document.requests).toEqual([]);
});

test('what changes while a document is saved is not counted as saved', async () => {
  const document = new Edited();
  saveInTurn(document);
  const saved = document.save();
  await vi.waitFor(() => expect(document.requests).toHaveLength(1));
  document.edit('edited since');
  await document.answered(0);
  await saved;
  expect(document.file).toBe('edited');
  expect(document.model.dirty).toBe(true);
});

test('what is added because a document is about to be saved is counted as saved', async () => {
  const document = new Edited();
  saveInTurn(document);
  document.saveState.connect((_, state) => {
    if (state === 'started') {
      document.edit('edited, and the state of widgets');
    }
  });
  const saved = document.save();
  await document.answered(0);
  await saved;
  expect(document.file).toBe('edited, and the state of widgets');
  expect(document.model.dirty).toBe(false);
});

test('what has been saved first is in the file though more comes meanwhile', async () => {
  const document = new Edited();
  saveInTurn(document);
  const ask = vi.fn(async () => false);
  const saved = savedFirst(document, ask);
  await vi.waitFor(() => expect(document.requests).toHaveLength(1));
  document.edit('edited since');
  await document.answered(0);
  expect(await saved).toBe(true);
  expect(ask).not.toHaveBeenCalled();
});

test('a save waits for the one before, and then takes what there is', async () => {
  const document = new Edited();
  saveInTurn(document);
  const first = document.save();
  await vi.waitFor(() => expect(document.requests).toHaveLength(1));
  const second = document.save();
  document.edit('edited since');
  expect(document.save()).toBe(second);
  expect(document.requests).toHaveLength(1);
  await document.answered(0);
  await first;
  await document.answered(1);
  await second;
  expect(document.requests).toHaveLength(2);
  expect(document.file).toBe('edited since');
  expect(document.model.dirty).toBe(false);
});

test('a save that was refused keeps no other back', async () => {
  const document = new Edited();
  saveInTurn(document);
  const refused = document.save();
  await vi.waitFor(() => expect(document.requests).toHaveLength(1));
  document.requests[0]?.refuse(new Error('no space left'));
  await expect(refused).rejects.toThrow('no space left');
  const saved = document.save();
  await document.answered(1);
  await saved;
  expect(document.model.dirty).toBe(false);
});

test('a document with two views is taken in hand once', async () => {
  const document = new Edited();
  saveInTurn(document);
  const { save } = document;
  saveInTurn(document);
  expect(document.save).toBe(save);
});
