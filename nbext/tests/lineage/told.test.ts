import { expect, test } from 'vitest';
import { rendered } from '../../src/lineage/told';

function shown(html: string): string {
  const box = document.createElement('div');
  box.append(rendered(html));
  return box.innerHTML;
}

test('what the kernel renders comes through', () => {
  const html =
    '<div style="line-height: 1.4;"><div style="white-space: pre-wrap; padding-left: 2ch;">' +
    '&lt;b&gt; <b>loaded</b></div></div>';
  expect(shown(html)).toBe(html);
});

test('half-transparent words are quiet ones, which can be read', () => {
  expect(shown('<span style="opacity:.65">since</span>')).toBe(
    '<span class="bp-quiet">since</span>'
  );
});

test.each([
  '<script>harm()</script>',
  '<img src=x onerror=harm()>',
  '<svg onload=harm()><a>x</a></svg>',
  '<iframe srcdoc="<script>harm()</script>"></iframe>',
  '<style>* { display: none }</style>',
  '<template><b>x</b></template>'
])('nothing is left of %s', html => {
  expect(shown(html)).toBe('');
});

test('of what is unknown the words stay, of what is known only the known attributes', () => {
  expect(shown('<a href="javascript:harm()">words</a>')).toBe('words');
  expect(shown('<b id="x" class="y" onclick="harm()" data-do="drop">b</b>')).toBe('<b>b</b>');
});

test.each([
  'background: url(//elsewhere)',
  'position: fixed',
  'padding-left: calc(1px)',
  'white-space: "x"'
])('a style %s is left out', style => {
  const [only] = rendered(`<div style='${style}'>x</div>`).children;
  expect(only?.getAttribute('style') ?? '').toBe('');
});

test('what is nested too deep to be ours is cut off, not followed', () => {
  const deep = '<div>'.repeat(300) + 'x';
  expect(shown(deep).length).toBeLessThan(500);
});
