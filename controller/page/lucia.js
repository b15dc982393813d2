// The page's own script: what a click, a form and typing lead to, in modules of one concern each.
import * as keys from './keys.js';
import './live.js';
import * as machines from './machines.js';
import * as orders from './orders.js';
import * as passkeys from './passkeys.js';
import { said, say } from './say.js';
import { choose, index, sift } from './servers.js';

const copy = async (button) => {
  const copied = button.parentElement.querySelector('code, textarea');
  await navigator.clipboard.writeText(copied.value ?? copied.textContent);
  say('Copied.', false, button);
};

const ACTS = { ...keys.ACTS, ...machines.ACTS, ...orders.ACTS, ...passkeys.ACTS, copy };
const FORMS = { ...keys.FORMS, ...machines.FORMS, ...passkeys.FORMS };

async function run(act, element, button) {
  if (!act || button?.disabled) return;
  if (button) button.disabled = true;
  say('');
  try {
    await act(element);
  } catch (error) {
    const words = error.name === 'NotAllowedError' ? 'Nothing was done: it was cancelled, or this browser does not allow it.' : error.message;
    say(words, true, button ?? element.querySelector?.('[type="submit"]'));
    // Who is still typing keeps the focus.
    if (button) said.focus();
  }
  if (button) button.disabled = false;
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-act]');
  if (button) run(ACTS[button.dataset.act], button, button);
});
document.addEventListener('submit', (event) => {
  event.preventDefault();
  run(FORMS[event.target.id], event.target, event.submitter);
});
document.addEventListener('change', ({ target }) => {
  if (target.id === 'hostname' || target.name === 'disk') run(machines.isKnown, target.form);
  if (target.name === 'what') keys.takes(target.form);
  if (target.name === 'what' || target.id === 'account') run((form) => keys.fill(form), target.form);
  if (target.name === 'node') keys.tellChosen();
});
document.addEventListener('input', ({ target }) => {
  // A browser's own words for a wrong form do not say which one is right.
  if (target.pattern && target.title) {
    target.setCustomValidity('');
    if (target.validity.patternMismatch) target.setCustomValidity(`${target.title}.`);
  }
  if (target.id === 'key-text' && keys.forgetPrivate(target)) say(target.dataset.private, true, target);
  if (target.id === 'audit-filter') sift();
  if (target.id === 'list-filter' || target.id === 'only-looks') choose();
  if (target.id !== 'node-filter') return;
  for (const item of document.querySelectorAll('#choose li')) item.hidden = !item.textContent.includes(target.value);
});

index();
