// The list of servers, put in place a few rows at a time so that a fleet that changes all at once stops nobody's typing; and
// which rows of it and of the audit a reader asked for.
import { by } from './say.js';

// Milliseconds that a browser works before it listens to a person again.
export const SLICE = 8;
const waiting = new Map();
let rows = new Map();
let working = false;

export const index = () => {
  rows = new Map([...document.querySelectorAll('tr[data-node]')].map((row) => [row.dataset.node, row]));
  choose();
  sift();
};

// Shows the entries of the audit that a reader asked for.
export function sift() {
  const wanted = by('audit-filter')?.value.toLowerCase();
  if (wanted === undefined) return;
  for (const row of document.querySelectorAll('#entries tbody tr')) row.hidden = !row.textContent.toLowerCase().includes(wanted);
}

// The cells of a row behind its name, in their order.
const CELLS = ['state', 'load', 'memory', 'storage', 'temperature', 'certificate', 'look'];

function put(row, cells) {
  const link = row.cells[0].firstElementChild;
  if (link.textContent !== cells.name) link.textContent = cells.name;
  CELLS.forEach((name, at) => {
    const cell = row.cells[at + 1];
    if (cell.firstChild?.nodeType !== Node.TEXT_NODE) cell.prepend('');
    if (cell.firstChild.data !== cells[name]) cell.firstChild.data = cells[name];
  });
  if (row.classList.contains('silent') !== cells.silent) row.classList.toggle('silent', cells.silent);
  if (row.cells[1].className !== cells.tone) row.cells[1].className = cells.tone;
  const path = row.cells[2].querySelector('path');
  if (path.getAttribute('d') !== cells.spark) path.setAttribute('d', cells.spark);
}

function work() {
  const until = performance.now() + SLICE;
  for (const [id, cells] of waiting) {
    waiting.delete(id);
    if (rows.has(id)) put(rows.get(id), cells);
    if (performance.now() > until) break;
  }
  working = waiting.size > 0;
  if (working) requestAnimationFrame(work);
  else count();
}

// Takes in what became of some rows.
export function change(fresh) {
  for (const cells of fresh) if (rows.has(cells.id)) waiting.set(cells.id, cells);
  if (working || waiting.size === 0) return;
  working = true;
  requestAnimationFrame(work);
}

// Shows the rows that a reader asked for; a fresh list knows nothing of that.
export function choose() {
  const [name, looks] = [by('list-filter')?.value ?? '', by('only-looks')?.checked];
  for (const row of rows.values()) {
    const hidden = !row.cells[0].textContent.includes(name) || Boolean(looks && !row.lastElementChild.textContent);
    if (row.hidden !== hidden) row.hidden = hidden;
  }
}

function count() {
  choose();
  const shown = document.querySelector('[data-looks]');
  if (!shown) return;
  let looks = 0;
  for (const row of rows.values()) if (row.lastElementChild.textContent) looks += 1;
  if (shown.textContent !== String(looks)) shown.textContent = String(looks);
}
