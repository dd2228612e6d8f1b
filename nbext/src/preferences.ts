/** What the user has set for this extension, with its defaults where no settings can be had. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import { type Zoom, ZOOMS } from './lineage/controls';

/** The schema's name; its defaults are those below. */
const SETTINGS = 'branchpoint:plugin';

export type Side = 'left' | 'right';

export interface IPreferences {
  readonly changed: ISignal<IPreferences, void>;
  readonly dimLeftCells: boolean;
  readonly memoryInStatusBar: boolean;
  readonly panelSide: Side;
  readonly rowSize: Zoom;
  readonly offerToRestoreText: boolean;
}

export const IPreferences = new Token<IPreferences>(
  'branchpoint:IPreferences',
  'What the user has set for branchpoint.'
);

export class Preferences implements IPreferences {
  readonly changed = new Signal<this, void>(this);
  private settings: ISettingRegistry.ISettings | null = null;

  /** Follow these settings from now on. */
  use(settings: ISettingRegistry.ISettings): void {
    this.settings = settings;
    settings.changed.connect(() => this.changed.emit());
    this.changed.emit();
  }

  get dimLeftCells(): boolean {
    return this.value('dimLeftCells', true);
  }

  get memoryInStatusBar(): boolean {
    return this.value('memoryInStatusBar', true);
  }

  get panelSide(): Side {
    return this.value<string>('panelSide', 'right') === 'left' ? 'left' : 'right';
  }

  get rowSize(): Zoom {
    const wanted = this.value<string>('rowSize', 'normal');
    return ZOOMS.find(zoom => zoom === wanted) ?? 'normal';
  }

  get offerToRestoreText(): boolean {
    return this.value('offerToRestoreText', true);
  }

  private value<T extends string | boolean>(name: string, otherwise: T): T {
    const value = this.settings?.composite[name];
    return typeof value === typeof otherwise ? (value as T) : otherwise;
  }
}

export const preferring: JupyterFrontEndPlugin<IPreferences> = {
  id: SETTINGS,
  description: 'What the user has set for branchpoint.',
  autoStart: true,
  provides: IPreferences,
  optional: [ISettingRegistry],
  activate: async (_app, registry: ISettingRegistry | null) => {
    const preferences = new Preferences();
    try {
      const settings = await registry?.load(SETTINGS);
      if (settings) {
        preferences.use(settings);
      }
    } catch {
      // A page that cannot have the schema, as one of an older build, has the defaults.
    }
    return preferences;
  }
};
