// Calls to the controller, and documents asked for in the background.
import { main } from './say.js';

// What the page asks by itself does not keep anybody signed in.
const QUIET = { 'Lucia-Background': '1' };

class Refused extends Error {
  constructor(error, status) {
    super(error.message);
    this.code = error.code;
    this.status = status;
  }
}

export async function call(method, path, body) {
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
export async function look(path) {
  const answer = await fetch(path, { headers: QUIET, credentials: 'same-origin' });
  if (answer.redirected) {
    location.assign(answer.url);
    return null;
  }
  return answer.ok || answer.status === 404 ? new DOMParser().parseFromString(await answer.text(), 'text/html') : null;
}
