// Where the order that was drafted last stands, by this document itself.
import { by } from './say.js';

let followed = null;
export const isFollowed = (code) => followed === code;
export const followOnly = (code) => { followed = code; };

export const standing = () => (followed ? document.querySelector(`main [data-standing="${followed}"]`) : null);

const wordsOf = ({ dataset, textContent: [first, ...rest] }) => dataset.words ?? `${first.toUpperCase()}${rest.join('')}.`;

// Lets the box of the last drafted order say what `state` says. Whether there was one.
export function agree(state) {
  if (!state || !by('draft-state')) return false;
  const words = wordsOf(state);
  if (by('draft-state').textContent !== words) by('draft-state').textContent = words;
  if (state.dataset.waits === 'false') {
    by('draft-head').textContent = 'Your order';
    by('draft-sign').hidden = true;
  }
  return true;
}
