/** Has the widget of `%lineage` offer what only this page can do, where its notebook is followed. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { pageDeeds } from './acting';
import { type FollowedNotebook, IFollowing } from './follow';
import { offerDeeds } from './page_deeds';

export const offering: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:offering',
  description: 'Opens branches and restores text from the widget of %lineage, too.',
  autoStart: true,
  requires: [IFollowing],
  activate: ({ commands }: JupyterFrontEnd, following: IFollowing) => {
    const offer = (): void => {
      const sessions = following.all.flatMap(({ view }) => view?.session ?? []);
      offerDeeds(sessions, session => pageDeeds(session, commands));
    };
    const watch = (notebook: FollowedNotebook): void => void notebook.changed.connect(offer);
    following.all.forEach(watch);
    following.added.connect((_, notebook) => watch(notebook));
    // One that was closed is told of by this alone.
    following.changed.connect(offer);
    offer();
  }
};
