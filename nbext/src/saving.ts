/** Has the file of a notebook be what its page shows, before somebody reads the file. Pure. */

/** A document in a page; JupyterLab's contexts are. */
export interface Document {
  readonly model: { readonly dirty: boolean };
  readonly contentsModel: { readonly writable?: boolean } | null;
  save(): Promise<void>;
}

/**
 * Whether to go on: the file has all there is, or `ask` was answered that it may lack the rest.
 * Somebody who cannot save is told so by JupyterLab already.
 */
export async function savedFirst(
  document: Document,
  ask: () => Promise<boolean>
): Promise<boolean> {
  if (!document.model.dirty) {
    return true;
  }
  if (document.contentsModel?.writable === false) {
    return ask();
  }
  try {
    await document.save();
  } catch {
    return ask();
  }
  // Refused in a dialog of JupyterLab's, it may end without an error.
  return document.model.dirty ? ask() : true;
}
