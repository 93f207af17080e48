//! What a configuration means: merged, validated, immutable.
//!
//! Values that nginx inherits from `http` to `server` to `location` live in structures made by `layered!`: a draft
//! holds what one block says, [`inherit`](CoreDraft::inherit) fills the rest from the block around it as the modules'
//! `merge_loc_conf` do, `build` puts the defaults in. Durations are [`std::time::Duration`], sizes are bytes in `u64` or `usize`.

/// Defines a structure of settings and its draft.
macro_rules! layered {
    ($(#[$meta:meta])* pub struct $name:ident / $draft:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        #[doc = concat!("What one block says of [`", stringify!($name), "`].")]
        #[derive(Clone, Debug, Default)]
        pub struct $draft {
            $($(#[$field_meta])* pub $field: Option<$type>,)*
        }

        impl $draft {
            /// Takes from `parent` what this block does not say.
            pub fn inherit(&mut self, parent: &Self) {
                $(if self.$field.is_none() {
                    self.$field.clone_from(&parent.$field);
                })*
            }

            /// Whether this block says nothing.
            pub fn is_unset(&self) -> bool {
                true $(&& self.$field.is_none())*
            }

            /// The settings, with nginx's defaults where nobody said anything.
            pub fn build(&self) -> $name {
                $name { $($field: self.$field.clone().unwrap_or_else(|| $default),)* }
            }
        }
    };
}

mod affinity;
mod core;
mod http;
mod http2;
mod limits;
mod listen;
mod location;
mod log;
mod main;
mod proxy;
mod resolver;
mod responder;
mod rewrite;
mod stream;
mod tls;
mod upstream;
mod walk;

pub use affinity::*;
pub use core::*;
pub use http::*;
pub use http2::*;
pub use limits::*;
pub use listen::*;
pub use location::*;
pub use log::*;
pub use main::*;
pub use proxy::*;
pub use resolver::*;
pub use responder::*;
pub use rewrite::*;
pub use stream::*;
pub use tls::*;
pub use upstream::*;
