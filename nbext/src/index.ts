/** The plugins of this extension; each is written in the module that is named after it. */
import { commanding } from './commands';
import { comparing } from './comparing';
import { dimming } from './dimming';
import { following } from './follow';
import { offering } from './offering';
import { opening } from './opening';
import { paneling } from './panel';
import { preferring } from './preferences';
import { status } from './status';
import { toolbar } from './toolbar';
import { placing } from './widget_places';

export default [
  preferring,
  following,
  commanding,
  paneling,
  toolbar,
  status,
  dimming,
  comparing,
  opening,
  offering,
  placing
];
