// Passkeys, and the sessions that they open.
import { call, look } from './call.js';
import { refresh } from './refresh.js';
import { by, main, say } from './say.js';
import { base64, codeOf, sha256, utf8 } from './text.js';

// What a passkey signed, as it is sent.
export const asserted = ({ response }) => ({
  authenticatorData: base64(response.authenticatorData),
  clientDataJson: new TextDecoder().decode(response.clientDataJSON),
  signature: base64(response.signature),
});

async function signIn(button) {
  const offered = await call('GET', '/api/host/challenge');
  const challenge = await sha256(utf8(['lucia-sign-in-v1', offered.challengeId, offered.nonce].join('\n')));
  const made = await navigator.credentials.get({
    publicKey: { challenge, rpId: button.dataset.rp, userVerification: 'required', timeout: 100000 },
  });
  await call('POST', '/api/host/sessions', {
    challengeId: offered.challengeId,
    credentialId: base64(made.rawId),
    assertion: asserted(made),
  });
  location.assign('/');
}

// A new P-256 key for this site, with its user verified; one for signing in is found without being named.
async function created(form, residentKey) {
  const label = form.elements.label.value.trim();
  const made = await navigator.credentials.create({
    publicKey: {
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      rp: { id: form.dataset.rp, name: 'Lucia Nodes' },
      // Nobody is named before the owner key did it: a random handle says nothing.
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name: label, displayName: label },
      pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
      authenticatorSelection: { residentKey, userVerification: 'required' },
      attestation: 'none',
      timeout: 100000,
    },
  });
  const key = made.response.getPublicKey();
  if (!key || made.response.getPublicKeyAlgorithm() !== -7) throw new Error('This authenticator makes no P-256 keys; use another.');
  return { label, id: made.rawId, key };
}

async function makePasskey(form) {
  const { label, id, key } = await created(form, 'required');
  // The code as this browser has it: the controller's is not taken on trust.
  const head = utf8('lucia-sign-in-passkey-v1\n');
  const code = await codeOf(new Uint8Array([...head, ...new Uint8Array(key), ...new Uint8Array(id)]));
  const asked = await call('POST', '/api/host/passkeys', { label, credentialId: base64(id), publicKey: base64(key) });
  if (asked.code !== code) throw new Error('The controller answered with the code of another passkey. Confirm nothing, and look at the controller.');
  by('passkey-code').textContent = code;
  by('passkey-made').hidden = false;
  by('passkey-head').focus();
  followPasskey(code);
}

// Tells whether it was confirmed, for as long as it waits: an hour at most.
let awaited = null;
async function followPasskey(code) {
  awaited = code;
  const [shown, next] = [by('passkey-state'), by('passkey-next')];
  next.textContent = 'Then sign in';
  for (let times = 0; times < 1300 && awaited === code; times += 1) {
    const state = await look(`/passkeys?asked=${code}`).then((fresh) => fresh?.getElementById('passkey-state'), () => null);
    if (awaited !== code) return;
    if (state && shown.textContent !== state.textContent) shown.textContent = state.textContent;
    if (state?.dataset.state === 'confirmed') {
      next.textContent = 'Sign in';
      refresh();
      return;
    }
    if (state?.dataset.state === 'gone') return;
    await new Promise((go) => setTimeout(go, 3000));
  }
}

// One for orders: nothing is sent, its owner takes it to luciactl. It is not to come up where somebody signs in.
async function makeOrdersPasskey(form) {
  const { label, id, key } = await created(form, 'discouraged');
  by('orders-text').value = JSON.stringify({ label, credentialId: base64(id), publicKey: base64(key) });
  by('orders-code').textContent = await codeOf(key);
  by('orders-made').hidden = false;
  by('orders-head').focus();
}

export const ACTS = {
  'sign-in': signIn,
  'sign-out': async () => {
    const view = await call('GET', '/api/host/sessions');
    const own = view.sessions.find((session) => session.current);
    if (own) await call('DELETE', `/api/host/sessions/${own.code}`);
    location.assign('/sign-in');
  },
  'end-session': async ({ dataset }) => {
    await call('DELETE', `/api/host/sessions/${dataset.code}`);
    if (dataset.current) {
      location.assign('/sign-in');
      return;
    }
    await refresh();
    say('The session was ended.');
    main.focus();
  },
  'remove-passkey': async ({ dataset }) => {
    if (!confirm('Remove this passkey? It signs nobody in any more, and its sessions end.')) return;
    await call('DELETE', `/api/host/passkeys/${dataset.code}`);
    location.reload();
  },
  'dismiss-passkey': async ({ dataset }) => {
    await call('DELETE', `/api/host/passkeys/${dataset.code}`);
    location.reload();
  },
};

export const FORMS = {
  'passkey-form': makePasskey,
  'orders-form': makeOrdersPasskey,
};
