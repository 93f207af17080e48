//! The command line: nginx's options, words and exit codes.
//!
//! Mirrors `ngx_get_options`, `ngx_show_version_info` and `main` (`core/nginx.c`). Messages keep the word `nginx:` in
//! front, because scripts look for it.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    conf::{self, LoadOptions, model},
    log::{self, Logs},
    process::{self, Inherited, Startup},
    tls::Contexts,
};

/// Where things are when the command line does not say. DIFFERS(paths): they are ours, beside those of an nginx.
const PREFIX: &str = "/var/lib/headwater/";
const CONF_FILE: &str = "headwater.conf";
const CONF_PATH: &str = "/etc/headwater/headwater.conf";
const ERROR_LOG: &str = "logs/error.log";

/// The nginx whose behaviour this is; tools read features and version from `-V`.
const NGINX_VERSION: &str = "1.31.5";

/// Whose TLS it is, and which OpenSSL's nginx it behaves like, for tools that look for that.
const TLS: &str =
    "built with rustls 0.23, as nginx built with OpenSSL 3.0.0\nTLS SNI support enabled\n";

/// What is there and what is not, as options of nginx's `configure`.
const CONFIGURE: &[&str] = &[
    "--with-threads",
    "--with-http_realip_module",
    "--with-http_ssl_module",
    "--with-http_stub_status_module",
    "--with-http_v2_module",
    "--with-stream",
    "--with-stream_realip_module",
    "--with-stream_ssl_module",
    "--with-stream_ssl_preread_module",
    "--without-http-cache",
    "--without-http_auth_basic_module",
    "--without-http_autoindex_module",
    "--without-http_browser_module",
    "--without-http_charset_module",
    "--without-http_fastcgi_module",
    "--without-http_memcached_module",
    "--without-http_mirror_module",
    "--without-http_referer_module",
    "--without-http_scgi_module",
    "--without-http_ssi_module",
    "--without-http_tunnel_module",
    "--without-http_upstream_sticky_module",
    "--without-http_userid_module",
    "--without-http_uwsgi_module",
    "--without-mail_imap_module",
    "--without-mail_pop3_module",
    "--without-mail_smtp_module",
];

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Arguments {
    help: bool,
    version: bool,
    configure: bool,
    test: bool,
    dump: bool,
    quiet: bool,
    prefix: Option<String>,
    error_log: Option<String>,
    conf_file: Option<String>,
    globals: Option<String>,
    signal: Option<String>,
}

impl Arguments {
    /// Reads the arguments after the program's name. The error is nginx's message.
    fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let arg = short(arg);
            let Some(options) = arg.strip_prefix('-') else {
                return Err(format!("invalid option: \"{arg}\""));
            };
            let mut options = options.chars();
            while let Some(option) = options.next() {
                if !parsed.flag(option) {
                    let attached = options.as_str();
                    let value = match attached {
                        "" => args.next(),
                        _ => Some(attached.to_owned()),
                    };
                    parsed.value(option, value)?;
                    break;
                }
            }
        }
        Ok(parsed)
    }

    /// Takes an option without a value; false when it is none.
    fn flag(&mut self, option: char) -> bool {
        match option {
            '?' | 'h' => {
                self.version = true;
                self.help = true;
            }
            'v' => self.version = true,
            'V' => {
                self.version = true;
                self.configure = true;
            }
            't' => self.test = true,
            'T' => {
                self.test = true;
                self.dump = true;
            }
            'q' => self.quiet = true,
            _ => return false,
        }
        true
    }

    fn value(&mut self, option: char, value: Option<String>) -> Result<(), String> {
        let (field, what) = match option {
            'p' => (&mut self.prefix, "directory name"),
            'e' => (&mut self.error_log, "file name"),
            'c' => (&mut self.conf_file, "file name"),
            'g' => (&mut self.globals, "parameter"),
            's' => (&mut self.signal, "parameter"),
            _ => return Err(format!("invalid option: \"{option}\"")),
        };
        let value = value.ok_or_else(|| format!("option \"-{option}\" requires {what}"))?;
        if option == 's' && !matches!(&*value, "stop" | "quit" | "reopen" | "reload") {
            return Err(format!("invalid option: \"-s {value}\""));
        }
        *field = Some(value);
        Ok(())
    }

    fn prefix(&self) -> PathBuf {
        let mut prefix = self.prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        prefix.into()
    }

    fn load_options(&self) -> LoadOptions {
        let prefix = self.prefix();
        LoadOptions {
            file: match (&self.conf_file, &self.prefix) {
                (Some(file), _) => prefix.join(file),
                (None, Some(_)) => prefix.join(CONF_FILE),
                (None, None) => CONF_PATH.into(),
            },
            prefix,
            globals: self.globals.iter().cloned().collect(),
            error_log: self.error_log.clone(),
        }
    }

    /// Makes the built-in prefix where it is not there yet, so that a configuration from elsewhere starts without
    /// preparation. Whoever may not do that gets nginx's messages for what is missing.
    fn make_prefix(&self) {
        if self.prefix.is_none() {
            drop(std::fs::create_dir_all(Path::new(PREFIX).join("logs")));
        }
    }

    /// The log until a configuration says where to; None is standard error.
    fn startup_log(&self) -> Option<PathBuf> {
        let name = self.error_log.as_deref().unwrap_or(ERROR_LOG);
        (name != "stderr" && !name.is_empty()).then(|| self.prefix().join(name))
    }
}

/// The option that a long one stands for.
fn short(arg: String) -> String {
    match &*arg {
        // DIFFERS(long-options): nginx has none, but they are what people try first.
        "--help" => "-h".to_owned(),
        "--version" => "-v".to_owned(),
        _ => arg,
    }
}

/// Runs the program with these arguments, the first of which is its name.
pub fn run(args: Vec<String>) -> ExitCode {
    // Before anything is opened: numbers of descriptors are taken at their word.
    let inherited = Inherited::take();
    process::claim_title();
    let arguments = match Arguments::parse(args.iter().skip(1).cloned()) {
        Ok(arguments) => arguments,
        Err(message) => {
            say(&message);
            return ExitCode::FAILURE;
        }
    };
    if arguments.version {
        to_stderr(&version_text(&arguments));
        if !arguments.test {
            return ExitCode::SUCCESS;
        }
    }
    arguments.make_prefix();
    let (logs, failure) = Logs::startup(arguments.startup_log().as_deref(), arguments.test);
    if let Some(message) = failure {
        say(&format!("[alert] could not open error log file: {message}"));
    }
    log::set_console(true);
    let options = arguments.load_options();
    let done = match conf::load(&options) {
        Ok(config) => act(
            &arguments,
            config,
            Startup {
                binary: process::binary(&args),
                options,
                logs,
                args,
            },
            inherited,
        ),
        Err(error) => {
            process::warn(&logs, error.warnings());
            if error.is_syntax_ok() {
                syntax_is_ok(&arguments, &options);
            }
            process::emerg(&logs, &error.to_string());
            signal_all_the_same(&arguments, &options, &logs)
        }
    };
    done.unwrap_or_else(|| {
        if arguments.test {
            let file = arguments.load_options().file;
            say(&format!(
                "configuration file {} test failed",
                file.display()
            ));
        }
        ExitCode::FAILURE
    })
}

/// Does what the arguments ask for, once the configuration is read. None: it failed, and why is logged.
fn act(
    arguments: &Arguments,
    config: model::Config,
    startup: Startup,
    inherited: Inherited,
) -> Option<ExitCode> {
    process::warn(&startup.logs, &config.warnings);
    // nginx loads certificates while it reads.
    let mut warn = |text: &str| process::warn(&startup.logs, &[text.to_owned()]);
    let tls = match Contexts::new(&config, None, &mut warn) {
        Ok(tls) => tls,
        Err(message) => {
            process::emerg(&startup.logs, &message);
            return signal_all_the_same(arguments, &startup.options, &startup.logs);
        }
    };
    syntax_is_ok(arguments, &startup.options);
    if let (Some(signal), false) = (&arguments.signal, arguments.test) {
        let sent = process::send_signal(signal, &config.main.pid, &startup.logs);
        return sent.then_some(ExitCode::SUCCESS);
    }
    if !arguments.test {
        return process::run(config, tls, startup, inherited);
    }
    let file = startup.options.file.display().to_string();
    let config = process::test(config, tls, &startup.logs)?;
    if !arguments.quiet {
        say(&format!("configuration file {file} test is successful"));
    }
    if arguments.dump {
        dump(&config);
    }
    Some(ExitCode::SUCCESS)
}

/// Sends the signal of `-s` though the configuration is broken, unless the signal is about the configuration. None: there
/// is none to be sent, or it failed, which is logged.
// DIFFERS(broken-signal): nginx sends nothing.
fn signal_all_the_same(
    arguments: &Arguments,
    options: &LoadOptions,
    logs: &Logs,
) -> Option<ExitCode> {
    let word = arguments.signal.as_deref()?;
    if arguments.test || word == "reload" {
        return None;
    }
    let sent = process::send_signal(word, &conf::pid(options)?, logs);
    sent.then_some(ExitCode::SUCCESS)
}

fn syntax_is_ok(arguments: &Arguments, options: &LoadOptions) {
    if arguments.test && !arguments.quiet {
        let file = options.file.display();
        say(&format!("the configuration file {file} syntax is ok"));
    }
}

/// Prints every file of the configuration (`-T`).
fn dump(config: &model::Config) {
    let mut out = Vec::new();
    for (path, content) in &config.files {
        out.extend_from_slice(dump_title(path).as_bytes());
        out.extend_from_slice(content);
        out.push(b'\n');
    }
    // Nobody is left to tell when standard output is closed.
    io::stdout().write_all(&out).ok();
}

fn dump_title(path: &Path) -> String {
    format!("# configuration file {}:\n", path.display())
}

/// A message to whoever started the program.
fn say(message: &str) {
    to_stderr(&format!("nginx: {message}\n"));
}

fn to_stderr(text: &str) {
    // Nobody is left to tell when standard error is closed.
    io::stderr().write_all(text.as_bytes()).ok();
}

fn version_text(arguments: &Arguments) -> String {
    let mut text = format!(
        "headwater version: headwater/{}\n",
        env!("CARGO_PKG_VERSION")
    );
    if arguments.help {
        text += &help_text();
    }
    if arguments.configure {
        let prefix = PREFIX.trim_end_matches('/');
        writeln!(text, "nginx version: nginx/{NGINX_VERSION}").expect("a string takes any text");
        text += TLS;
        writeln!(
            text,
            "configure arguments: --prefix={prefix} --conf-path={CONF_PATH} {}",
            CONFIGURE.join(" ")
        )
        .expect("a string takes any text");
    }
    text
}

fn help_text() -> String {
    format!(
        "Usage: headwater [-?hvVtTq] [-s signal] [-p prefix]
                 [-e filename] [-c filename] [-g directives]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {PREFIX})
  -e filename   : set error log file (default: {ERROR_LOG})
  -c filename   : set configuration file (default: {CONF_PATH})
  -g directives : set global directives out of configuration file

Manual: headwater(8) for options and signals, headwater.conf(5) for the configuration
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(args.iter().map(|&arg| arg.to_owned()))
    }

    #[test]
    fn options_together_and_apart() {
        let parsed = parse(&[
            "-tq",
            "-p/x",
            "-c",
            "a.conf",
            "-g",
            "daemon off;",
            "-e",
            "stderr",
        ]);
        let parsed = parsed.unwrap();
        assert!(parsed.test && parsed.quiet && !parsed.dump);
        let options = parsed.load_options();
        assert_eq!(options.prefix, Path::new("/x/"));
        assert_eq!(options.file, Path::new("/x/a.conf"));
        assert_eq!(options.globals, ["daemon off;"]);
        assert_eq!(parsed.startup_log(), None);
        let bare = parse(&[]).unwrap();
        assert_eq!(
            bare.load_options().file,
            Path::new("/etc/headwater/headwater.conf")
        );
        assert!(parse(&["-h"]).unwrap().help);
    }

    #[test]
    fn errors_are_nginx_s() {
        for (args, message) in [
            (&["x"][..], "invalid option: \"x\""),
            (&["-x"], "invalid option: \"x\""),
            (&["--x"], "invalid option: \"-\""),
            (&["-tx"], "invalid option: \"x\""),
            (&["-c"], "option \"-c\" requires file name"),
            (&["-e"], "option \"-e\" requires file name"),
            (&["-p"], "option \"-p\" requires directory name"),
            (&["-g"], "option \"-g\" requires parameter"),
            (&["-s"], "option \"-s\" requires parameter"),
            (&["-s", "foo"], "invalid option: \"-s foo\""),
            (&["-sfoo"], "invalid option: \"-s foo\""),
        ] {
            assert_eq!(parse(args).unwrap_err(), message, "{args:?}");
        }
    }

    #[test]
    fn long_options_are_those_that_people_try() {
        assert_eq!(parse(&["--help"]), parse(&["-h"]));
        assert_eq!(parse(&["--version"]), parse(&["-v"]));
        assert!(parse(&["--helpme"]).is_err());
        assert!(help_text().contains("headwater(8)"));
    }

    #[test]
    fn version_says_what_is_missing() {
        let text = version_text(&parse(&["-V"]).unwrap());
        assert!(text.starts_with("headwater version: headwater/0."));
        assert!(text.contains("\nnginx version: nginx/1."));
        assert!(text.contains("--without-http_charset_module"));
    }
}
