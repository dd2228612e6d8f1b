/** A page that shows made-up sessions, to look at the tree and to try it without a kernel. */

import type { Action, LineageService, LineageView, Question, Told } from '../src/lineage/facts';
import { LineageTree } from '../src/lineage/tree';
import { many, moved, small } from './sessions';

const asked: (Action | Question)[] = [];
/**
 * What the next action gives: refused with these words, or done after a while. What is asked is
 * answered, unless `dumb` says why not.
 */
const answers = { refusal: '', hint: '', dumb: '', wait_ms: 0 };

const wait = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

const HTML =
  '<div style="font-family:monospace;line-height:1.4">' +
  '<div style="white-space:pre-wrap;padding-left:2ch;text-indent:-2ch">○ <b>%rollback loaded would do this; nothing has been done</b>   <span style="opacity:.65"></span></div>' +
  '<div style="white-space:pre-wrap;padding-left:2ch;text-indent:-2ch">▸ <b>2 cells are undone</b>   <span style="opacity:.65">In[6] score = fit(&lt;model&gt;)</span></div>' +
  '<div style="white-space:pre-wrap;padding-left:2ch;text-indent:-2ch">⚠ <b>1 effect since then would not be undone</b>   <span style="opacity:.65">POST api.example.org/orders 10:42:07</span></div>' +
  '<script>window.harmed = 1</script><img src="x" onerror="window.harmed = 1"></div>';

async function inPage(): Promise<boolean> {
  await wait(answers.wait_ms);
  return true;
}

function service(isPage: boolean): LineageService {
  const plain: LineageService = {
    act: async (action: Action) => {
      asked.push(action);
      await wait(answers.wait_ms);
      if (answers.refusal) {
        throw { message: answers.refusal, hint: answers.hint };
      }
      return {
        total_ms: 110,
        checkpoint: { label: 'loaded' },
        safety: { label: 'before-rollback-2' }
      };
    },
    ask: async (question: Question): Promise<Told> => {
      asked.push(question);
      await wait(answers.wait_ms);
      if (answers.dumb) {
        throw { message: answers.dumb, hint: '' };
      }
      return { text: 'told', html: HTML, record: {} };
    }
  };
  const page = { openBranch: inPage, compareBranches: inPage, restoreText: inPage };
  return isPage ? { ...plain, page } : plain;
}

function view(count: number): LineageView {
  return count <= 5 ? small() : many(count);
}

const wanted = new URLSearchParams(location.search);
const host = document.getElementById('host') as HTMLElement;
host.style.width = wanted.get('width') ?? '';
host.style.height = wanted.get('height') ?? '';
const theme = wanted.get('theme') ?? 'light';
if (theme !== 'none') {
  document.body.dataset['jpThemeLight'] = String(theme === 'light');
}
let now = view(Number(wanted.get('count') ?? 5));
const began = performance.now();
const tree = new LineageTree(host, service(wanted.get('place') === 'panel'));
tree.show(now);
const first_ms = performance.now() - began;

/** For whoever tries the page: show something else, and what was asked for. */
Object.assign(window, {
  demo: {
    asked,
    answers,
    first_ms,
    tree,
    now: () => now,
    show: (changed: Partial<LineageView>) => {
      now = { ...now, ...changed };
      tree.show(now);
    },
    /** Script time of so many updates with other figures, in milliseconds each. */
    update: (times: number): number[] =>
      Array.from({ length: times }, (_, tick) => {
        now = moved(now, tick + 1);
        const start = performance.now();
        tree.show(now);
        return performance.now() - start;
      }),
    /** The same when a checkpoint more is there each time. */
    grow: (times: number): number[] =>
      Array.from({ length: times }, (_, tick) => {
        const grown = many(now.checkpoints.length + 1 + (tick % 2));
        const start = performance.now();
        tree.show(grown);
        return performance.now() - start;
      })
  }
});
