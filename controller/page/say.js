// What is said to a person. Text goes into the document as text alone; there is no other way in it that a node's words
// could become markup.
export const main = document.getElementById('main');
export const said = document.getElementById('said');
export const by = (id) => document.getElementById(id);

// What is said stands below the heading, and below what was pressed where that could not be seen from there.
const heading = said.previousElementSibling;
export const say = (text, bad, near) => {
  const place = near?.isConnected ? near.closest('p, .act') ?? near : heading;
  if (place.nextSibling !== said) place.after(said);
  said.classList.toggle('bad', Boolean(bad));
  said.setAttribute('role', bad ? 'alert' : 'status');
  said.textContent = text;
};
