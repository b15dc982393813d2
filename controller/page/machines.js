// Machines that wait, the window in which they are discovered, and a node's name.
import { call } from './call.js';
import { draft } from './orders.js';
import { refresh } from './refresh.js';
import { by, main, say } from './say.js';

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
export async function isKnown(form) {
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

export const ACTS = {
  'close-window': async () => {
    await call('DELETE', '/api/host/onboarding/window');
    await refresh();
    say('The window is closed.');
    main.focus();
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
};

export const FORMS = {
  'approve-form': approve,
  'window-form': async (form) => {
    await call('POST', '/api/host/onboarding/window', { minutes: Number(form.elements.minutes.value) });
    await refresh();
    say('The window is open. Start the installer on your machines; they appear on Servers.');
  },
};
