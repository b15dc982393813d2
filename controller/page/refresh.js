// This document, asked for again: what became other is put in, and spans of time go on between two looks.
import { look } from './call.js';
import { by, main, said } from './say.js';
import { SLICE, index } from './servers.js';
import { agree, standing } from './standing.js';

const keyOf = (node) => node.dataset?.node ?? node.dataset?.key;

// Makes `old` say what `fresh` says and leaves in place whatever does already, so that a reader loses neither focus nor place.
// It stops after each element, as hundreds of rows are more than a browser may do without listening to a person.
function* morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  // What was said to a person beside a button stays there.
  const past = (node) => (node === said ? node.nextSibling : node);
  let at = past(old.firstChild);
  for (const want of [...fresh.childNodes]) {
    const key = keyOf(want);
    const have = key ? keyed.get(key) : at;
    if (!have || have.nodeName !== want.nodeName || keyOf(have) !== key) {
      old.insertBefore(document.adoptNode(want), at);
      continue;
    }
    if (have === at) at = past(at.nextSibling);
    else old.insertBefore(have, at);
    if (have.nodeType === Node.ELEMENT_NODE) yield* morph(have, want);
    else if (have.data !== want.data) have.data = want.data;
    yield;
  }
  while (at) {
    const next = past(at.nextSibling);
    at.remove();
    at = next;
  }
}

const pause = () => new Promise((go) => setTimeout(go));

async function inSlices(steps) {
  let until = performance.now() + SLICE;
  while (!steps.next().done) {
    if (performance.now() < until) continue;
    agree(standing());
    await pause();
    until = performance.now() + SLICE;
  }
}

// What a document is about: its first part that lives says so.
const whatOf = (one) => one.querySelector('[data-live]')?.dataset.live;

// Asks for this document again and puts in what became other. Who asks meanwhile waits for another look after this one.
let refreshing = null;
let again = false;
export function refresh() {
  again = true;
  refreshing ??= (async () => {
    while (again) {
      await new Promise((go) => setTimeout(go, 250));
      again = false;
      const next = await look(location.pathname + location.search);
      if (!next) return;
      // What it is about became something else, or is gone: no part of this document says anything true of that.
      if (whatOf(next) !== whatOf(document)) {
        // From its top, where it says what became of it.
        history.scrollRestoration = 'manual';
        location.reload();
        return;
      }
      document.title = next.title;
      const [heading, title] = [document, next].map((one) => one.querySelector('h1'));
      if (heading.textContent !== title.textContent) heading.textContent = title.textContent;
      for (const old of document.querySelectorAll('[data-live]')) {
        const fresh = next.querySelector(`[data-live="${old.dataset.live}"]`);
        await pause();
        if (fresh) await inSlices(morph(old, fresh));
        agree(standing());
      }
      // What was approved elsewhere meanwhile is not approved here any more.
      if (by('approve-form') && !by('compare')) by('approve-form').closest('section').hidden = true;
      const asOf = next.getElementById('as-of');
      by('as-of').textContent = asOf?.textContent ?? '';
      hear(asOf?.dateTime);
      main.dataset.sequence = next.getElementById('main')?.dataset.sequence ?? '';
      index();
      countDown();
    }
  })().catch(() => {}).finally(() => { refreshing = null; });
  return refreshing;
}

// The countdown of the discovery window goes on between two looks.
let counted = null;
function countDown() {
  const shown = by('countdown');
  if (!shown) return;
  const started = performance.now();
  counted = { shown, left: Number(shown.dataset.left), started };
}
countDown();
setInterval(() => {
  if (!counted?.shown.isConnected) return;
  const left = Math.max(0, Math.round(counted.left - (performance.now() - counted.started) / 1000));
  counted.shown.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
  if (left === 0) {
    counted = null;
    refresh();
  }
}, 1000);

// The controller's clock as it was last heard, and when that was by this browser's.
let clock = null;
export function hear(at) {
  clock = { at: Date.parse(at), heard: performance.now() };
  return clock.heard;
}
hear(by('as-of').dateTime);

// As the controller writes a span.
const spanOf = (secs) => {
  const [size, unit] = [[172800, 86400, 'days'], [7200, 3600, 'h'], [120, 60, 'min']].find(([from]) => secs >= from)?.slice(1) ?? [1, 's'];
  return `${Math.floor(secs / size)} ${unit}`;
};

// What is said to be so long ago goes on being so while somebody reads, whether or not the controller answers.
function countOn() {
  const now = clock.at + performance.now() - clock.heard;
  for (const time of main.querySelectorAll('time[datetime]')) {
    if (!/( ago|just now)$/.test(time.textContent)) continue;
    const secs = Math.floor((now - Date.parse(time.dateTime)) / 1000);
    const words = secs > 0 ? `${spanOf(secs)} ago` : 'just now';
    if (time.textContent !== words) time.textContent = words;
  }
}
setInterval(countOn, 1000);
