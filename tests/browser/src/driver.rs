//! chromedriver: a program that listens on loopback and takes one command a connection.

use std::io::{self, BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::{BrowserError, PATIENCE, refused};

/// The longest answer: the log of a trace.
const ANSWER_MAX: usize = 256 << 20;

/// The running driver, ended when dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    port: u16,
    /// Kept open: a driver that cannot write ends.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    /// Starts one; the browser that it starts has the same home.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one site of this crate that starts a program, which is its matter"
    )]
    pub(crate) fn start(home: &Path) -> Result<Self, BrowserError> {
        let not_started = |err| BrowserError::NotStarted { err };
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", home)
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(not_started)?;
        let silent = || not_started(io::Error::other("it does not say on which port it is"));
        let mut said = BufReader::new(child.stdout.take().ok_or_else(silent)?).lines();
        // It tells the port that was asked for as well, which is none.
        let port = said.by_ref().map_while(Result::ok).find_map(|line| {
            line.rsplit_once("on port ")?.1.trim_end_matches('.').parse().ok().filter(|port| *port != 0)
        });
        let driver = Self { child, port: port.unwrap_or_default(), _said: said };
        if port.is_some() { Ok(driver) } else { Err(silent()) }
    }

    /// One command; its value, which is no error.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, BrowserError> {
        let command = format!("{method} {path}");
        let answer = self.exchange(method, path, body);
        let mut answer = answer.map_err(|err| BrowserError::Silent { command: command.clone(), err })?;
        let value = answer.get_mut("value").map(Value::take).unwrap_or_default();
        if value.get("error").is_some_and(Value::is_string) { Err(refused(&command, &value)) } else { Ok(value) }
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let lower = line.trim_end().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if lower.is_empty() {
                break;
            }
        }
        if length > ANSWER_MAX {
            return Err(io::Error::other(format!("an answer of {length} bytes")));
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It takes its browser with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
