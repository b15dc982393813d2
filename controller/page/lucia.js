// The page's own script: signing in, orders drafted and not signed, lists that live. Text goes into the document as text
// alone; there is no other way in it that a node's words could become markup.
const main = document.getElementById('main');
const said = document.getElementById('said');
const by = (id) => document.getElementById(id);

// What is said stands below the heading, and below what was pressed where that could not be seen from there.
const heading = said.previousElementSibling;
const say = (text, bad, near) => {
  const place = near?.isConnected ? near.closest('p, .act') ?? near : heading;
  if (place.nextSibling !== said) place.after(said);
  said.classList.toggle('bad', Boolean(bad));
  said.setAttribute('role', bad ? 'alert' : 'status');
  said.textContent = text;
};
const bytesOf = (buffer) => [...new Uint8Array(buffer)];
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const base64 = (buffer) => btoa(String.fromCharCode(...bytesOf(buffer)));
const hex = (buffer) => bytesOf(buffer).map((b) => b.toString(16).padStart(2, '0')).join('');
const sha256 = (bytes) => crypto.subtle.digest('SHA-256', bytes);
const utf8 = (text) => new TextEncoder().encode(text);
// What a person types is made from the very bytes, as luciactl makes it.
const codeOf = async (bytes) => hex(await sha256(bytes)).slice(0, 12).replace(/(.{4})(.{4})(.{4})/, '$1-$2-$3');

// What the page asks by itself does not keep anybody signed in.
const QUIET = { 'Lucia-Background': '1' };

class Refused extends Error {
  constructor(error, status) {
    super(error.message);
    this.code = error.code;
    this.status = status;
  }
}

async function call(method, path, body) {
  const options = { method, headers: {}, credentials: 'same-origin' };
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

// A document of the page, asked for in the background: also the one that says that what was there is gone. Nothing once the
// session is over, which leads to signing in.
async function look(path) {
  const answer = await fetch(path, { headers: QUIET, credentials: 'same-origin' });
  if (answer.redirected) {
    location.assign(answer.url);
    return null;
  }
  return answer.ok || answer.status === 404 ? new DOMParser().parseFromString(await answer.text(), 'text/html') : null;
}

// Passkeys.

// What a passkey signed, as it is sent.
const asserted = ({ response }) => ({
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

// Orders: drafted here, read and signed elsewhere unless the roster says otherwise.

// Drafts an order about `nodes`; `body` is its text. What is done once has a nonce and a day, a state its revision.
async function draft(kind, nodes, body, terms) {
  const now = Math.floor(Date.now() / 1000) * 1000;
  const time = (ms) => new Date(ms).toISOString().replace('.000Z', 'Z');
  const intentJson = JSON.stringify({
    kind,
    fleet: main.dataset.fleet,
    owner: main.dataset.owner,
    nodes: [...nodes].sort(),
    bodySha256: hex(await sha256(utf8(body))),
    issuedAt: time(now),
    ...(terms ?? { notAfter: time(now + 12 * 3600 * 1000), nonce: base64(crypto.getRandomValues(new Uint8Array(32))) }),
  });
  await call('POST', '/api/host/orders', { intentJson, body });
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

// Where this document itself says that the followed order stands.
const standing = () => (followed ? document.querySelector(`main [data-standing="${followed}"]`) : null);

const wordsOf = ({ dataset, textContent: [first, ...rest] }) => dataset.words ?? `${first.toUpperCase()}${rest.join('')}.`;

// Lets the box of the last drafted order say what `state` says. Whether there was one.
function agree(state) {
  if (!state || !by('draft-state')) return false;
  const words = wordsOf(state);
  if (by('draft-state').textContent !== words) by('draft-state').textContent = words;
  if (state.dataset.waits === 'false') {
    by('draft-head').textContent = 'Your order';
    by('draft-sign').hidden = true;
  }
  return true;
}

// Tells where the last drafted order stands, until nothing becomes of it any more.
let followed = null;
async function follow(code) {
  followed = code;
  const shown = by('draft-state');
  let told = '';
  while (followed === code) {
    const state = await look(`/orders/${code}`).then((next) => next?.querySelector('[data-order-state]'), () => null);
    if (followed !== code) return;
    const words = state ? state.dataset.words : 'Where it stands cannot be seen: the controller does not answer, or the draft was thrown away.';
    if (told !== words) {
      told = words;
      // What else says on this document where it stands comes from a later look: that one counts for both.
      if (state && standing()) await refresh();
      if (followed !== code) return;
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

async function approve(form) {
  const { device, code, fingerprint } = form.dataset;
  const hostname = form.elements.hostname.value;
  // A machine that runs has no disk to choose: it joins as it is.
  const { disk, erase } = form.elements;
  const erased = disk ? { diskId: disk.value, confirmation: erase.value } : {};
  await call('POST', `/api/host/devices/${device}/approve-install`, { hostname, ...erased });
  form.closest('section').hidden = true;
  // What is compared is typed by a person from the machine's own screen, and never handed over by a page.
  const atWorker = `admit it on the worker's host: lucia-enrollment-worker admit ${code} --fingerprint HEX, where HEX is what the machine's own screen shows.`;
  if (!main.dataset.fleet) {
    say(`Approved as ${hostname}. Now ${atWorker}`);
    return;
  }
  say(`Approved as ${hostname}; ${disk ? 'its installation' : 'what is typed on the machine'} may begin.`);
  try {
    await draft('admit', [device], JSON.stringify({ fingerprint, hostname }));
  } catch (error) {
    say(`Approved as ${hostname}, but its admission could not be drafted (${error.message}). Draft it below, or ${atWorker}`, true);
  }
  refresh();
}

// Whether a node has the name that is typed: whoever takes its place removes it, which is not done here.
async function isKnown(form) {
  const input = form.elements.hostname;
  const view = await call('GET', '/api/host/nodes');
  const node = view.nodes.find((node) => node.hostname === input.value && node.nodeId !== form.dataset.device);
  by('replaces').hidden = !node;
  input.setCustomValidity(node ? 'A node has this name: see below.' : '');
  if (!node) return;
  by('replaces-name').textContent = node.hostname;
  by('replaces-node').textContent = node.hostname;
  if (form.elements.disk) by('replaces-disk').textContent = form.elements.disk.value || 'ID';
  by('replaces-id').textContent = node.verificationCode;
  by('replaces-seen').textContent = node.lastSeenAt ? `, last heard at ${node.lastSeenAt}` : ', never heard from';
}

// The keys of an account by the last order that was given, and whom that is for.
async function held(account) {
  const row = [...document.querySelectorAll('tr[data-account]')].find((row) => row.dataset.account === account);
  const next = Number(row?.dataset.next ?? 1);
  if (!row?.dataset.order) return { next, keys: [], nodes: [] };
  const view = await call('GET', `/api/host/orders/${row.dataset.order}`);
  return { next, keys: JSON.parse(view.draft.body).keys, nodes: JSON.parse(view.draft.intentJson).nodes };
}

// A private key that was pasted by mistake stays in no field and in no memory of the page.
function forgetPrivate(field) {
  if (!/PRIVATE KEY|PuTTY-User-Key-File/.test(field.value)) return false;
  field.value = '';
  return true;
}

// The key of a line of a .pub file: what is no key is not handed in, and a private one goes nowhere. The words are the
// controller's own, which looks at it all anew. What follows the key in its line is a comment, which is not signed.
function publicKey(field) {
  const { value, dataset } = field;
  if (forgetPrivate(field)) throw new Error(dataset.private);
  const [kind, text] = value.trim().split(/[ \t]+/);
  if (/[\r\n]/.test(value.trim())) throw new Error(dataset.line);
  if (!dataset.kinds.split(' ').includes(kind)) throw new Error(dataset.kind);
  let blob;
  try {
    blob = bytes(text ?? '');
  } catch {
    throw new Error(dataset.base64);
  }
  const name = utf8(kind);
  if (blob.length < name.length + 8 || blob[3] !== name.length || name.some((byte, at) => blob[at + 4] !== byte)) throw new Error(dataset.blob);
  return `${kind} ${text}`;
}

// As ssh-keygen -l has it.
const printOf = async (key) => `SHA256:${base64(await sha256(bytes(key.split(' ')[1]))).replace(/=+$/, '')}`;

const nodeBoxes = () => [...document.querySelectorAll('#choose input')];
const tellChosen = () => {
  const count = nodeBoxes().filter((box) => box.checked).length;
  by('chosen').textContent = count === 0 ? 'none chosen' : `${count} chosen`;
  by('chosen-why').hidden = true;
};

function takes(form) {
  const take = form.elements.what.value === 'take';
  by('give-part').hidden = take;
  by('take-part').hidden = !take;
  by('key-label').required = !take;
  by('key-text').required = !take;
  by('key-held').required = take;
  return take;
}

// Puts in what the account has: its keys to take, its nodes chosen.
async function fill(form, fingerprint) {
  const account = form.elements.account.value;
  const has = await held(account);
  by('account-new').hidden = !account || Boolean([...document.querySelectorAll('tr[data-account]')].find((row) => row.dataset.account === account));
  const options = await Promise.all(has.keys.map(async ({ label, key }) => {
    const option = document.createElement('option');
    option.value = await printOf(key);
    option.textContent = `${label} ${option.value}`;
    option.selected = option.value === fingerprint;
    return option;
  }));
  by('key-held').replaceChildren(...options);
  if (has.nodes.length > 0) {
    for (const box of nodeBoxes()) box.checked = has.nodes.includes(box.value);
    tellChosen();
    by('chosen-why').hidden = !nodeBoxes().some((box) => box.checked);
  }
}

async function orderKeys(form) {
  const account = form.elements.account.value;
  const nodes = nodeBoxes().filter((box) => box.checked).map((box) => box.value);
  if (nodes.length === 0) throw new Error('Choose the nodes that the order is for.');
  const has = await held(account);
  let keys = has.keys;
  if (takes(form)) {
    const gone = by('key-held').value;
    const prints = await Promise.all(keys.map(({ key }) => printOf(key)));
    keys = keys.filter((_, at) => prints[at] !== gone);
    if (keys.length === has.keys.length) throw new Error(`${account} does not have this key by the last order.`);
  } else {
    const key = publicKey(form.elements.key);
    if (keys.some((other) => other.key === key)) throw new Error(`${account} has this key already.`);
    keys = [...keys, { label: form.elements.label.value.trim(), key }];
  }
  await draft('ssh-key', nodes, JSON.stringify({ account, keys }), { subject: account, revision: has.next });
  form.reset();
  takes(form);
  tellChosen();
  by('account-new').hidden = true;
  refresh();
}

const device = (verb, done, question) => async ({ dataset }) => {
  if (question && !confirm(question)) return;
  await call('POST', `/api/host/devices/${dataset.device}/${verb}`);
  if (location.pathname === '/') {
    await refresh();
    say(done);
    main.focus();
  } else {
    location.assign('/');
  }
};

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
  'close-window': async () => {
    await call('DELETE', '/api/host/onboarding/window');
    await refresh();
    say('The window is closed.');
    main.focus();
  },
  'take-key': async ({ dataset }) => {
    const form = by('keys-form');
    if (!form) throw new Error('There is no node left that an order could name.');
    form.elements.what.value = 'take';
    form.elements.account.value = dataset.account;
    takes(form);
    await fill(form, dataset.fingerprint);
    by('give').scrollIntoView();
    by('key-held').focus();
  },
  'check-shown': () => {
    for (const box of nodeBoxes()) if (!box.closest('li').hidden) box.checked = true;
    tellChosen();
  },
  'check-none': () => {
    for (const box of nodeBoxes()) box.checked = false;
    tellChosen();
  },
  reject: device('reject', 'Rejected.', 'Reject this machine? It stays on the list until it is dismissed or restored.'),
  restore: device('restore', 'It is back on the list.'),
  dismiss: device('dismiss', 'It is off the list.', 'Take this machine off the list? Nothing of it is kept; it may introduce itself again while the window is open.'),
  rename: async ({ dataset: { node, to } }) => {
    await call('POST', `/api/host/nodes/${node}/rename`, { hostname: to });
    // The same button undoes it once the document is fresh.
    await refresh();
    say(`Renaming to ${to}. What it waits for stands under Why.`);
    main.focus();
  },
  'drop-draft': async ({ dataset }) => {
    if (!confirm('Throw this draft away? Nobody can sign it any more.')) return;
    await call('DELETE', `/api/host/orders/${dataset.code}`);
    location.assign('/orders');
  },
  'sign-here': signHere,
  draft: ({ dataset }) => draft(dataset.kind, [dataset.node], dataset.body),
  copy: async (button) => {
    const copied = button.parentElement.querySelector('code, textarea');
    await navigator.clipboard.writeText(copied.value ?? copied.textContent);
    say('Copied.', false, button);
  },
};

const FORMS = {
  'passkey-form': makePasskey,
  'orders-form': makeOrdersPasskey,
  'approve-form': approve,
  'keys-form': orderKeys,
  'window-form': async (form) => {
    await call('POST', '/api/host/onboarding/window', { minutes: Number(form.elements.minutes.value) });
    await refresh();
    say('The window is open. Start the installer on your machines; they appear on Servers.');
  },
};

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
  if (target.id === 'hostname' || target.name === 'disk') run(isKnown, target.form);
  if (target.name === 'what') takes(target.form);
  if (target.name === 'what' || target.id === 'account') run((form) => fill(form), target.form);
  if (target.name === 'node') tellChosen();
});
document.addEventListener('input', ({ target }) => {
  // A browser's own words for a wrong form do not say which one is right.
  if (target.pattern && target.title) {
    target.setCustomValidity('');
    if (target.validity.patternMismatch) target.setCustomValidity(`${target.title}.`);
  }
  if (target.id === 'key-text' && forgetPrivate(target)) say(target.dataset.private, true, target);
  if (target.id === 'audit-filter') sift();
  if (target.id === 'list-filter' || target.id === 'only-looks') choose();
  if (target.id !== 'node-filter') return;
  for (const item of document.querySelectorAll('#choose li')) item.hidden = !item.textContent.includes(target.value);
});
// From a server's document: keys on that one.
if (by('choose') && location.hash.length === 33) {
  const box = nodeBoxes().find((box) => box.value === location.hash.slice(1));
  if (box) {
    box.checked = true;
    tellChosen();
    by('give').scrollIntoView();
    by('account').focus();
  }
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

// Lists that live. Rows are put in place a few at a time, so that a fleet that changes all at once stops nobody's typing.

const SLICE = 8;
const waiting = new Map();
let rows = new Map();
let working = false;

const index = () => {
  rows = new Map([...document.querySelectorAll('tr[data-node]')].map((row) => [row.dataset.node, row]));
  choose();
  sift();
};

// Shows the entries of the audit that a reader asked for.
function sift() {
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

// Shows the rows that a reader asked for; a fresh list knows nothing of that.
function choose() {
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
function refresh() {
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
      clock = { at: Date.parse(asOf?.dateTime), heard: performance.now() };
      main.dataset.sequence = next.getElementById('main')?.dataset.sequence ?? '';
      index();
      countDown();
    }
  })().catch(() => {}).finally(() => { refreshing = null; });
  return refreshing;
}

// The controller's clock as it was last heard, and when that was by this browser's.
let clock = { at: Date.parse(by('as-of').dateTime), heard: performance.now() };

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

const NOT_LIVE = ', not live: the controller does not answer, trying again';
function isLive(yes) {
  by('live').textContent = yes ? ', and live since then' : NOT_LIVE;
  main.classList.toggle('old', !yes);
  if (yes) by('away').hidden = true;
}

// Ticks that may be missed before nothing here counts as live.
const MISSED = 3;

function live() {
  const source = new EventSource('/api/host/stream');
  // A line may be dead without anybody saying so: it is live while its ticks come.
  let due = Infinity;
  const watch = setInterval(() => {
    if (performance.now() < due) return;
    over();
    by('away').hidden = false;
    setTimeout(live, 1000);
  }, 1000);
  const over = () => {
    clearInterval(watch);
    source.close();
    isLive(false);
  };
  source.addEventListener('open', () => { due = performance.now() + 30000; });
  source.addEventListener('tick', (event) => {
    const { at, every } = JSON.parse(event.data);
    clock = { at: Date.parse(at), heard: performance.now() };
    due = clock.heard + MISSED * every * 1000;
    isLive(true);
  });
  source.addEventListener('nodes', (event) => {
    const server = document.querySelector('[data-live="server"]');
    for (const cells of JSON.parse(event.data).rows) {
      if (server?.dataset.node === cells.id) refresh();
      if (rows.has(cells.id)) waiting.set(cells.id, cells);
    }
    if (!working && waiting.size > 0) {
      working = true;
      requestAnimationFrame(work);
    }
  });
  // Told to whoever comes, too: a document may be older than the first look of who watches.
  source.addEventListener('list', (event) => {
    if (String(JSON.parse(event.data).sequence) !== main.dataset.sequence) refresh();
  });
  source.addEventListener('error', () => {
    isLive(false);
    due = Infinity;
    // A controller that starts again is back within seconds; whoever was refused is not told that it does not answer.
    setTimeout(() => { by('away').hidden = source.readyState !== EventSource.CONNECTING; }, 5000);
    // A refusal ends an EventSource for good; a broken line it mends by itself.
    if (source.readyState === EventSource.CLOSED) {
      over();
      setTimeout(live, 30000);
    }
  });
}

index();
if (main.dataset.signed === 'yes' && document.querySelector('[data-live]')) {
  live();
  // Orders, applications and sessions are told of by nobody: what shows them looks by itself, while somebody sees it.
  setInterval(() => {
    if (!document.hidden && document.querySelector('[data-poll]')) refresh();
  }, 4000);
}
