// SSH keys: which an account has, and the order that gives or takes one.
import { call } from './call.js';
import { draft } from './orders.js';
import { refresh } from './refresh.js';
import { by } from './say.js';
import { base64, bytes, sha256, utf8 } from './text.js';

// The keys of an account by the last order that was given, and whom that is for.
async function held(account) {
  const row = [...document.querySelectorAll('tr[data-account]')].find((row) => row.dataset.account === account);
  const next = Number(row?.dataset.next ?? 1);
  if (!row?.dataset.order) return { next, keys: [], nodes: [] };
  const view = await call('GET', `/api/host/orders/${row.dataset.order}`);
  return { next, keys: JSON.parse(view.draft.body).keys, nodes: JSON.parse(view.draft.intentJson).nodes };
}

// A private key that was pasted by mistake stays in no field and in no memory of the page.
export function forgetPrivate(field) {
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
export const tellChosen = () => {
  const count = nodeBoxes().filter((box) => box.checked).length;
  by('chosen').textContent = count === 0 ? 'none chosen' : `${count} chosen`;
  by('chosen-why').hidden = true;
};

export function takes(form) {
  const take = form.elements.what.value === 'take';
  by('give-part').hidden = take;
  by('take-part').hidden = !take;
  by('key-label').required = !take;
  by('key-text').required = !take;
  by('key-held').required = take;
  return take;
}

// Puts in what the account has: its keys to take, its nodes chosen.
export async function fill(form, fingerprint) {
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

export const ACTS = {
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
};

export const FORMS = {
  'keys-form': orderKeys,
};

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
