// Text and bytes: how they are written, and the code that a person compares.
const bytesOf = (buffer) => [...new Uint8Array(buffer)];
export const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
export const base64 = (buffer) => btoa(String.fromCharCode(...bytesOf(buffer)));
export const hex = (buffer) => bytesOf(buffer).map((b) => b.toString(16).padStart(2, '0')).join('');
export const sha256 = (bytes) => crypto.subtle.digest('SHA-256', bytes);
export const utf8 = (text) => new TextEncoder().encode(text);
// What a person types is made from the very bytes, as luciactl makes it.
export const codeOf = async (bytes) => hex(await sha256(bytes)).slice(0, 12).replace(/(.{4})(.{4})(.{4})/, '$1-$2-$3');
