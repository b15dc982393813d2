// The stream of changes, and whether what is shown is live.
import { hear, refresh } from './refresh.js';
import { by, main } from './say.js';
import { change } from './servers.js';

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
    due = hear(at) + MISSED * every * 1000;
    isLive(true);
  });
  source.addEventListener('nodes', (event) => {
    const server = document.querySelector('[data-live="server"]');
    const { rows } = JSON.parse(event.data);
    if (rows.some(({ id }) => id === server?.dataset.node)) refresh();
    change(rows);
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

if (main.dataset.signed === 'yes' && document.querySelector('[data-live]')) {
  live();
  // Orders, applications and sessions are told of by nobody: what shows them looks by itself, while somebody sees it.
  setInterval(() => {
    if (!document.hidden && document.querySelector('[data-poll]')) refresh();
  }, 4000);
}
