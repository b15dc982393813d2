// The page's own script: signing in, orders drafted and not signed, lists that live. Text goes into the document as text
// alone; there is no other way in it that a node's words could become markup.
const main = document.getElementById('main');
const said = document.getElementById('said');

const say = (text, bad) => {
  said.classList.toggle('bad', Boolean(bad));
  said.textContent = text;
};
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, '0')).join('');
const sha256 = (bytes) => crypto.subtle.digest('SHA-256', bytes);
const utf8 = (text) => new TextEncoder().encode(text);

// What the page asks by itself does not keep anybody signed in.
const QUIET = { 'Lucia-Background': '1' };

class Refused extends Error {
  constructor(error, status) {
    super(error.message);
    this.code = error.code;
    this.status = status;
  }
}

async function call(method, path, body, quiet) {
  const options = { method, headers: quiet ? { ...QUIET } : {}, credentials: 'same-origin' };
  if (body !== undefined) {
    options.headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error('The controller does not answer; try again.');
  }
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  if (answer.status === 403 && value.error?.code === 'actor_required' && main.dataset.signed === 'yes') {
    location.assign('/sign-in');
  }
  throw new Refused(value.error ?? { code: String(answer.status), message: `Refused (${answer.status}).` }, answer.status);
}

// Passkeys.

async function signIn(button) {
  const offered = await call('GET', '/api/host/challenge');
  const challenge = await sha256(utf8(['lucia-sign-in-v1', offered.challengeId, offered.nonce].join('\n')));
  const made = await navigator.credentials.get({
    publicKey: { challenge, rpId: button.dataset.rp, userVerification: 'required', timeout: 100000 },
  });
  await call('POST', '/api/host/sessions', {
    challengeId: offered.challengeId,
    credentialId: base64(made.rawId),
    assertion: {
      authenticatorData: base64(made.response.authenticatorData),
      clientDataJson: new TextDecoder().decode(made.response.clientDataJSON),
      signature: base64(made.response.signature),
    },
  });
  location.assign('/');
}

async function makePasskey(form) {
  const label = form.elements.label.value.trim();
  const made = await navigator.credentials.create({
    publicKey: {
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      rp: { id: form.dataset.rp, name: 'Lucia Nodes' },
      // Nobody is named before the owner key did it: a random handle says nothing.
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name: label, displayName: label },
      pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      attestation: 'none',
      timeout: 100000,
    },
  });
  const key = made.response.getPublicKey();
  if (!key || made.response.getPublicKeyAlgorithm() !== -7) throw new Error('This authenticator makes no P-256 keys; use another.');
  // The code as this browser has it: the controller's is not taken on trust.
  const head = utf8('lucia-sign-in-passkey-v1\n');
  const text = new Uint8Array([...head, ...new Uint8Array(key), ...new Uint8Array(made.rawId)]);
  const code = hex(await sha256(text)).slice(0, 12).replace(/(.{4})(.{4})(.{4})/, '$1-$2-$3');
  const asked = await call('POST', '/api/host/passkeys', { label, credentialId: base64(made.rawId), publicKey: base64(key) });
  if (asked.code !== code) throw new Error('The controller answered with the code of another passkey. Confirm nothing, and look at the controller.');
  document.getElementById('passkey-code').textContent = code;
  document.getElementById('passkey-made').hidden = false;
  document.getElementById('passkey-head').focus();
}

// Orders: drafted here, read and signed elsewhere.

async function draft(kind, from, body) {
  const now = Math.floor(Date.now() / 1000) * 1000;
  const time = (ms) => new Date(ms).toISOString().replace('.000Z', 'Z');
  const text = JSON.stringify(body);
  const intent = {
    kind,
    fleet: from.fleet,
    owner: from.owner,
    nodes: [from.node],
    bodySha256: hex(await sha256(utf8(text))),
    issuedAt: time(now),
    notAfter: time(now + 12 * 3600 * 1000),
    nonce: base64(crypto.getRandomValues(new Uint8Array(32))),
  };
  const intentJson = JSON.stringify(intent);
  await call('POST', '/api/host/intents', { intentJson, body: text });
  // What a person types is made from the very text, as luciactl makes it.
  const code = hex(await sha256(utf8(intentJson))).slice(0, 12).replace(/(.{4})(.{4})(.{4})/, '$1-$2-$3');
  document.getElementById('draft-code').textContent = code;
  document.getElementById('draft').hidden = false;
  document.getElementById('draft-head').focus();
  follow(code);
}

const STATES = {
  drafted: 'Nobody has signed it yet.',
  signed: 'Signed. Whoever carries it out hears of it within a minute.',
  done: 'Carried out.',
  refused: 'Refused',
  expired: 'Its time was over first; draft it again.',
};

async function follow(code) {
  const shown = document.getElementById('draft-state');
  for (;;) {
    try {
      const view = await call('GET', '/api/host/intents', undefined, true);
      const line = view.drafts.find((line) => line.code === code);
      const state = line ? line.state : 'expired';
      const why = line?.outcomes?.map((outcome) => outcome.refused).filter(Boolean).join(', ');
      const words = why ? `${STATES[state]}: ${why}` : STATES[state];
      if (shown.textContent !== words) shown.textContent = words;
      if (state === 'done' || state === 'refused' || state === 'expired') return;
    } catch (error) {
      shown.textContent = error.message;
      if (error instanceof Refused && error.status < 500) return;
    }
    await new Promise((go) => setTimeout(go, 2000));
  }
}

async function approve(form) {
  const { device, fingerprint, fleet, owner } = form.dataset;
  const hostname = form.elements.hostname.value;
  await call('POST', `/api/host/devices/${device}/approve-install`, {
    hostname,
    diskId: form.elements.disk.value,
    confirmation: form.elements.erase.value,
  });
  form.hidden = true;
  say(`Approved as ${hostname}; its installation may begin.`);
  const atWorker = `admit it on the worker's host: lucia-enrollment-worker admit --fingerprint ${fingerprint}`;
  if (!fleet) {
    say(`Approved as ${hostname}. Now ${atWorker}`);
    return;
  }
  try {
    await draft('admit', { fleet, owner, node: device }, { fingerprint, hostname });
  } catch (error) {
    say(`Approved as ${hostname}, but its admission could not be drafted (${error.message}). Draft it with luciactl, or ${atWorker}`, true);
  }
}

const ACTS = {
  'sign-in': signIn,
  'sign-out': async () => {
    const view = await call('GET', '/api/host/sessions');
    const own = view.sessions.find((session) => session.current);
    if (own) await call('DELETE', `/api/host/sessions/${own.code}`);
    location.assign('/sign-in');
  },
  'end-session': async ({ dataset }) => {
    await call('DELETE', `/api/host/sessions/${dataset.code}`);
    location.assign(dataset.current ? '/sign-in' : '/passkeys');
  },
  'remove-passkey': async ({ dataset }) => {
    if (!confirm('Remove this passkey? It signs nobody in any more, and its sessions end.')) return;
    await call('DELETE', `/api/host/passkeys/${dataset.code}`);
    location.reload();
  },
  'close-window': async () => {
    await call('DELETE', '/api/host/onboarding/window');
    location.reload();
  },
  'remove-key': async ({ dataset }) => {
    if (!confirm(`Take this key from ${dataset.account}? Nodes drop it within a minute.`)) return;
    await call('POST', '/api/host/ssh-keys/remove', { account: dataset.account, fingerprint: dataset.fingerprint });
    location.reload();
  },
  reject: async ({ dataset }) => {
    if (!confirm('Reject this machine? It stays on the list until it is dismissed or restored.')) return;
    await call('POST', `/api/host/devices/${dataset.device}/reject`);
    location.assign('/');
  },
  draft: ({ dataset }) => draft(dataset.kind, dataset, JSON.parse(dataset.body)),
};

const FORMS = {
  'passkey-form': makePasskey,
  'approve-form': approve,
  'window-form': async (form) => {
    await call('POST', '/api/host/onboarding/window', { minutes: Number(form.elements.minutes.value) });
    location.reload();
  },
};

async function run(act, element, button) {
  if (!act || button?.disabled) return;
  if (button) button.disabled = true;
  say('');
  try {
    await act(element);
  } catch (error) {
    say(error.name === 'NotAllowedError' ? 'No passkey was used: it was cancelled, or there is none for this page.' : error.message, true);
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

const countdown = document.getElementById('countdown');
if (countdown) {
  const until = performance.now() + Number(countdown.dataset.left) * 1000;
  const tick = setInterval(() => {
    const left = Math.max(0, Math.round((until - performance.now()) / 1000));
    countdown.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
    if (left === 0) {
      clearInterval(tick);
      location.reload();
    }
  }, 1000);
}

// Lists that live. Rows are put in place a few at a time, so that a fleet that changes all at once stops nobody's typing.

const SLICE = 8;
const waiting = new Map();
let rows = new Map();
let working = false;

const index = () => {
  rows = new Map([...document.querySelectorAll('tr[data-node]')].map((row) => [row.dataset.node, row]));
};

function put(cells) {
  const row = rows.get(cells.id);
  if (!row) return;
  for (const cell of row.children) {
    const text = cells[cell.dataset.cell];
    if (text !== undefined && cell.textContent !== text) cell.textContent = text;
  }
}

function work() {
  const until = performance.now() + SLICE;
  for (const [id, cells] of waiting) {
    waiting.delete(id);
    put(cells);
    if (performance.now() > until) break;
  }
  working = waiting.size > 0;
  if (working) requestAnimationFrame(work);
  else count();
}

function count() {
  const shown = document.querySelector('[data-looks]');
  if (!shown) return;
  let looks = 0;
  for (const row of rows.values()) if (row.lastElementChild.textContent) looks += 1;
  if (shown.textContent !== String(looks)) shown.textContent = String(looks);
}

let refreshing = null;
function refresh() {
  refreshing ??= (async () => {
    await new Promise((go) => setTimeout(go, 250));
    const answer = await fetch(location.pathname, { headers: QUIET, credentials: 'same-origin' });
    if (answer.redirected) return location.assign(answer.url);
    if (!answer.ok) return undefined;
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const old of document.querySelectorAll('[data-live]')) {
      const fresh = next.querySelector(`[data-live="${old.dataset.live}"]`);
      if (!fresh || fresh.isEqualNode(old)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
      old.replaceWith(document.adoptNode(fresh));
      if (focused) [...fresh.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
    }
    index();
    return undefined;
  })().catch(() => {}).finally(() => { refreshing = null; });
}

function live() {
  const shown = document.getElementById('live');
  const source = new EventSource('/api/host/stream');
  source.addEventListener('open', () => { shown.textContent = ', live since'; });
  source.addEventListener('nodes', (event) => {
    const server = document.querySelector('[data-live="server"]');
    for (const cells of JSON.parse(event.data).rows) {
      if (server?.dataset.node === cells.id) refresh();
      waiting.set(cells.id, cells);
    }
    if (!working) {
      working = true;
      requestAnimationFrame(work);
    }
  });
  source.addEventListener('list', refresh);
  source.addEventListener('error', () => {
    shown.textContent = ', not live: the controller does not answer, trying again';
    // A refusal ends an EventSource for good; a broken line it mends by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(live, 30000);
  });
}

index();
if (main.dataset.signed === 'yes' && document.querySelector('[data-live]')) live();
