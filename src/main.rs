//! headwater's executable: hands the arguments to [`headwater::cli`].

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    headwater::cli::run(args.collect())
}
