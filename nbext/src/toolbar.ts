/** Buttons of a notebook's toolbar; where they are is for the settings to say (schema/plugin.json). */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type LabIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { COMMANDS } from './acting';
import { IFollowing } from './follow';
import { checkpointIcon, forkIcon, rollbackIcon } from './icons';

interface Button {
  command: string;
  label: string;
  tooltip: string;
  icon: LabIcon;
}

/** By the names the settings have for them. */
const BUTTONS: Record<string, Button> = {
  'branchpoint-checkpoint': {
    command: COMMANDS.checkpoint,
    label: 'Checkpoint',
    tooltip: 'Save the machine of this notebook as it is now',
    icon: checkpointIcon
  },
  'branchpoint-fork': {
    command: COMMANDS.fork,
    label: 'Fork',
    tooltip: 'Fork: make branches that carry on from this very moment',
    icon: forkIcon
  },
  'branchpoint-rollback': {
    command: COMMANDS.rollback,
    label: 'Roll back',
    tooltip: 'Roll back to the last checkpoint; asks first',
    icon: rollbackIcon
  }
};

export const toolbar: JupyterFrontEndPlugin<void> = {
  id: 'branchpoint:toolbar',
  description: 'Checkpoint, fork and roll back from the toolbar of a notebook.',
  autoStart: true,
  requires: [IFollowing],
  optional: [IToolbarWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    following: IFollowing,
    registry: IToolbarWidgetRegistry | null
  ) => {
    for (const [name, button] of Object.entries(BUTTONS)) {
      registry?.addFactory<NotebookPanel>('Notebook', name, panel =>
        made(app, following, panel, button)
      );
    }
  }
};

/** A toolbar is made before its notebook is followed. */
function made(
  app: JupyterFrontEnd,
  following: IFollowing,
  panel: NotebookPanel,
  { command, label, tooltip, icon }: Button
): ToolbarButton {
  const button = new ToolbarButton({
    icon,
    tooltip,
    label: '',
    enabled: false,
    onClick: () => {
      app.shell.activateById(panel.id);
      void app.commands.execute(command);
    }
  });
  button.addClass('bp-ToolbarButton');
  button.node.dataset['label'] = label;
  button.hide();
  const refresh = (): void => {
    const notebook = following.of(panel);
    // Notebooks on other kernels have no use for them.
    button.setHidden(notebook?.kernel !== 'ours');
    button.enabled = notebook?.steerable ?? false;
  };
  const follow = (): void => {
    following.of(panel)?.changed.connect(refresh);
    refresh();
  };
  if (following.of(panel) === null) {
    following.added.connect(function once(_, notebook) {
      if (notebook.panel === panel) {
        following.added.disconnect(once);
        follow();
      }
    });
  }
  follow();
  return button;
}
