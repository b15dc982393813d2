// Orders: drafted here, read and signed elsewhere unless the roster says otherwise.
import { call, look } from './call.js';
import { asserted } from './passkeys.js';
import { refresh } from './refresh.js';
import { by, main, say } from './say.js';
import { agree, followOnly, isFollowed, standing } from './standing.js';
import { base64, bytes, codeOf, sha256, utf8 } from './text.js';

// Has an order about `nodes` drafted; `body` is what it says, and a state has its subject and revision.
export async function draft(kind, nodes, body, state) {
  const { draft: { intentJson } } = await call('POST', '/api/host/drafts', { kind, nodes, body, ...state });
  const code = await codeOf(utf8(intentJson));
  by('draft-code').textContent = code;
  by('draft-link').href = `/orders/${code}`;
  by('draft-state').textContent = '';
  by('draft-head').textContent = 'Waiting for your signature';
  by('draft-sign').hidden = false;
  by('draft-not-here').hidden = by('draft-not-here').dataset.kinds.split(' ').includes(kind);
  by('draft').hidden = false;
  by('draft-head').focus();
  follow(code);
}

// Tells where the last drafted order stands, until nothing becomes of it any more.
async function follow(code) {
  followOnly(code);
  const shown = by('draft-state');
  let told = '';
  while (isFollowed(code)) {
    const state = await look(`/orders/${code}`).then((next) => next?.querySelector('[data-order-state]'), () => null);
    if (!isFollowed(code)) return;
    const words = state ? state.dataset.words : 'Where it stands cannot be seen: the controller does not answer, or the draft was thrown away.';
    if (told !== words) {
      told = words;
      // What else says on this document where it stands comes from a later look: that one counts for both.
      if (state && standing()) await refresh();
      if (!isFollowed(code)) return;
      if (!agree(standing())) {
        shown.textContent = words;
        agree(state);
        refresh();
      }
    }
    if (state?.dataset.over === 'true') {
      refresh();
      return;
    }
    await new Promise((go) => setTimeout(go, 2000));
  }
}

// Signs the order of this document with a passkey for orders, where the roster allows that.
async function signHere({ dataset }) {
  const { draft: { intentJson } } = await call('GET', `/api/host/orders/${dataset.code}`);
  if (await codeOf(utf8(intentJson)) !== dataset.code) throw new Error('The controller answered with another order than this one. Sign nothing, and look at the controller.');
  const keys = new Map(dataset.passkeys.split(' ').map((pair) => pair.split(':')));
  const made = await navigator.credentials.get({
    publicKey: {
      challenge: await sha256(utf8(`lucia-intent-passkey-v1\n${intentJson}`)),
      rpId: dataset.rp,
      allowCredentials: [...keys.keys()].map((id) => ({ type: 'public-key', id: bytes(id) })),
      userVerification: 'required',
      timeout: 100000,
    },
  });
  await call('POST', `/api/host/orders/${dataset.code}/signatures`, {
    owner: main.dataset.owner,
    key: keys.get(base64(made.rawId)),
    assertion: asserted(made),
  });
  await refresh();
  say('You signed it.');
  main.focus();
}

export const ACTS = {
  'drop-draft': async ({ dataset }) => {
    if (!confirm('Throw this draft away? Nobody can sign it any more.')) return;
    await call('DELETE', `/api/host/orders/${dataset.code}`);
    location.assign('/orders');
  },
  'sign-here': signHere,
  draft: ({ dataset }) => draft(dataset.kind, [dataset.node], dataset.body),
};
