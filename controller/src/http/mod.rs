//! The HTTP edge: who may be connected, what is refused before it is read, and which method answers.
//!
//! A request passes, in this order: a place (`gate`), the handshake (`accept`), the raw head (`head`, in the stream of
//! `pace`), the caller's address (`source`), method, path and content (`edge`, `route`), what else head and address decide,
//! room for its body (`budget`), the body under the row's limit (`edge`), for `/api/host` over the network an owner's proof (`owners`), and then the one method of
//! [`Parts`] that its row names (`calls`). Whatever refuses,
//! refuses in one shape (`error`), with one line in the log.

mod accept;
mod answer;
mod body;
mod budget;
mod calls;
mod documents;
mod edge;
mod error;
mod gate;
mod head;
mod health;
mod hub;
mod live;
mod memory;
mod observe;
#[cfg(test)]
mod openapi;
mod operator;
mod pace;
mod page;
mod pages;
mod refusals;
mod route;
mod serve;
mod site;
mod source;
mod timeouts;
mod token;
mod who;

pub use self::accept::{bind_tls, serve_stream, serve_tls};
pub use self::memory::beyond_unit;
pub use self::observe::serve_observers;
pub use self::operator::{SocketError, bind as bind_operator, serve_operator};
pub use self::site::{Edge, stopped};
pub use self::timeouts::Timeouts;
