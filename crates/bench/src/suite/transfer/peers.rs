//! Programs that move a file, each with keys, settings and ports of its own; the file does not leave the machine.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Source, Start};
use crate::Error;
use crate::process::{Process, command, find};

/// A server that takes longer to begin does not work here.
const BEGIN: Duration = Duration::from_secs(5);

/// All peers, or why they are not here.
pub(super) fn all() -> [(&'static str, Result<Start, &'static str>); 5] {
    [
        ("scp/aes128-gcm", scp("aes128-gcm@openssh.com")),
        ("scp/chacha20-poly1305", scp("chacha20-poly1305@openssh.com")),
        ("rsync/unencrypted", find("rsync").map(rsync).ok_or(NOT_ON_PATH)),
        ("croc", find("croc").map(croc).ok_or(NOT_ON_PATH)),
        ("sendme", find("sendme").map(sendme).ok_or(NOT_ON_PATH)),
    ]
}

const NOT_ON_PATH: &str = "not on PATH";

fn scp(cipher: &'static str) -> Result<Start, &'static str> {
    let (Some(scp), Some(sshd), Some(keygen)) = (find("scp"), find("sshd"), find("ssh-keygen")) else {
        return Err("scp, sshd and ssh-keygen are not all on PATH");
    };
    Ok(Box::new(move |source, home, into| {
        for key in ["host", "user"] {
            let mut make = command(&keygen, home);
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.join(key));
            if !make.status()?.success() {
                return Err(Error::Rejected { subject: "scp", step: "make a key" });
            }
        }
        let port = free_port()?;
        let at = |file: &str| home.join(file).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\n",
            at("host"),
            at("user.pub")
        );
        fs::write(home.join("config"), config)?;
        let server = listening(command(&sshd, home).args(["-D", "-e", "-f"]).arg(home.join("config")), port)?;
        let mut get = command(&scp, home);
        get.args(["-q", "-F", "/dev/null", "-i"]).arg(home.join("user")).args(["-c", cipher, "-P", &port.to_string()]);
        for option in
            ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
        {
            get.args(["-o", option]);
        }
        get.arg(format!("127.0.0.1:{}", source.path().display())).arg(into);
        Ok((vec![server], get))
    }))
}

fn rsync(rsync: PathBuf) -> Start {
    Box::new(move |source, home, into| {
        let port = free_port()?;
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        // The daemon of root would otherwise be nobody, who may not read the file.
        let owner = if uid.is_root() { format!("uid = {uid}\ngid = {gid}\n") } else { String::new() };
        let folder = source.folder.path().display();
        fs::write(home.join("config"), format!("use chroot = no\n{owner}[folder]\npath = {folder}\n"))?;
        let mut serve = command(&rsync, home);
        serve.args(["--daemon", "--no-detach", "--address=127.0.0.1", &format!("--port={port}"), "--config"]);
        let server = listening(serve.arg(home.join("config")), port)?;
        let mut get = command(&rsync, home);
        get.arg(format!("rsync://127.0.0.1:{port}/folder/{}", Source::NAME)).arg(into);
        Ok((vec![server], get))
    })
}

/// Through a relay of its own, as a file between two machines goes through one.
fn croc(croc: PathBuf) -> Start {
    Box::new(move |source, home, into| {
        let (first, ports) = free_ports()?;
        let address = format!("127.0.0.1:{first}");
        let program = |folder: &Path| {
            let mut command = command(&croc, home);
            command.env("CROC_SECRET", "1234-sealane-bench-loopback").current_dir(folder);
            command
        };
        let relay = listening(program(home).args(["relay", "--host", "127.0.0.1", "--ports", &ports]), first)?;
        let mut send = program(home);
        send.args(["--relay", &address, "--no-compress", "--ignore-stdin", "send", "--no-local"]).arg(source.path());
        let send = Process::spawn(&mut send)?;
        // It does not say when it is ready; a getter that is too early fails.
        thread::sleep(Duration::from_secs(1));
        let mut get = program(into);
        // Given the address, it does not look for senders in the network.
        get.args(["--yes", "--relay", &address, "--ip", &address]);
        Ok((vec![relay, send], get))
    })
}

fn sendme(sendme: PathBuf) -> Start {
    const NO_TICKET: Error = Error::Rejected { subject: "sendme", step: "print a ticket" };
    const ALONE: [&str; 5] = ["--relay", "disabled", "--magic-ipv4-addr", "127.0.0.1:0", "--no-progress"];
    Box::new(move |source, home, into| {
        let mut send = command(&sendme, home);
        send.arg("send").args(ALONE).args(["--ticket-type", "addresses"]).arg(source.path());
        send.current_dir(home).stdout(Stdio::piped());
        let mut send = Process::spawn(&mut send)?;
        let lines = BufReader::new(send.stdout().ok_or(NO_TICKET)?).lines();
        let ticket =
            lines.map_while(Result::ok).find_map(|line| line.strip_prefix("sendme receive ").map(str::to_owned));
        let mut get = command(&sendme, home);
        get.arg("receive").args(ALONE).arg(ticket.ok_or(NO_TICKET)?.trim()).current_dir(into);
        Ok((vec![send], get))
    })
}

/// One that nobody has now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Five in a row, as croc wants them: the first, and all for its command line.
fn free_ports() -> io::Result<(u16, String)> {
    loop {
        let first = free_port()?;
        let all = first..first.saturating_add(5);
        if all.len() == 5 && all.clone().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return Ok((first, all.map(|port| port.to_string()).collect::<Vec<_>>().join(",")));
        }
    }
}

/// Starts a server and waits until somebody listens at `port`.
fn listening(server: &mut Command, port: u16) -> io::Result<Process> {
    let mut server = Process::spawn(server)?;
    let start = Instant::now();
    while let Err(error) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
        if server.has_ended()? || start.elapsed() > BEGIN {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(server)
}
