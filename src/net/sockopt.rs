//! Socket options that neither the standard library nor socket2 know.

use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};

sockopt_impl!(
    /// The port of a bound address is chosen at connect().
    BindAddressNoPort,
    Both,
    libc::IPPROTO_IP,
    libc::IP_BIND_ADDRESS_NO_PORT,
    bool
);

sockopt_impl!(
    /// accept() returns when data has arrived, or after so many seconds (`deferred`).
    DeferAccept,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_DEFER_ACCEPT,
    i32
);

sockopt_impl!(
    /// Length of the queue of connections whose first data came with the SYN (`fastopen`).
    FastOpen,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_FASTOPEN,
    i32
);

sockopt_impl!(
    /// What the kernel knows of a TCP connection.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    libc::tcp_info
);
