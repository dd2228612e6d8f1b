import { expect, test, vi } from 'vitest';
import { type Document, savedFirst } from '../src/saving';

function edited(save: (document: { model: { dirty: boolean } }) => void): Document {
  const document = {
    model: { dirty: true },
    contentsModel: { writable: true },
    save: async () => save(document)
  };
  return document;
}

const clean = (document: { model: { dirty: boolean } }): void => {
  document.model.dirty = false;
};

test('what has edits is saved, and nothing is asked', async () => {
  const document = edited(clean);
  const ask = vi.fn(async () => false);
  expect(await savedFirst(document, ask)).toBe(true);
  expect(document.model.dirty).toBe(false);
  expect(ask).not.toHaveBeenCalled();
});

test('what has none is not written again', async () => {
  const save = vi.fn();
  const document = { ...edited(save), model: { dirty: false } };
  expect(await savedFirst(document, async () => false)).toBe(true);
  expect(save).not.toHaveBeenCalled();
});

test.each([
  [
    'cannot be saved',
    () => {
      throw new Error('no space left');
    }
  ],
  ['is not saved after all', () => {}]
])('whoever has a document that %s decides', async (_, save) => {
  expect(await savedFirst(edited(save), async () => true)).toBe(true);
  expect(await savedFirst(edited(save), async () => false)).toBe(false);
});

test('a document that may not be written is not tried', async () => {
  const save = vi.fn();
  const document = { ...edited(save), contentsModel: { writable: false } };
  expect(await savedFirst(document, async () => false)).toBe(false);
  expect(save).not.toHaveBeenCalled();
});
