//! The configuration's own variables in a request.

use crate::{
    common::addr::Addr,
    conf::model::Level,
    http::exchange::Exchange,
    vars::{Slot, Slots, slots::Scope},
};

impl<'g> Scope<'g> for Exchange<'g> {
    fn definitions(&self) -> &'g [Slot] {
        &self.live.http().slots
    }

    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn client(&self) -> &Addr {
        &self.client.addr
    }

    fn forwarded(&self, out: &mut Vec<u8>) {
        self.request
            .headers
            .join_variable("x_forwarded_for", b", ", out);
    }

    fn report_cycle(&self) {
        self.log(
            Level::Error,
            format_args!("cycle while evaluating variable"),
        );
    }

    fn report_unassigned(&self, name: &str) {
        if self.location.uninitialized_variable_warn {
            self.log(
                Level::Warn,
                format_args!("using uninitialized \"{name}\" variable"),
            );
        }
    }
}
