// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::test {

/// Starts a host and stays until its PID 1 has ended. The file has one step on each line, with tabs
/// between the words:
///     hostname NAME
///     log FILE                       where daemons write
///     bind FROM TO FLAGS             FLAGS of any mount: words of ro, noexec, nosuid, nodev, or -
///     mount TYPE TO FLAGS DATA
///     folder PATH MODE               made where it is missing
///     link TARGET PATH
///     address ADDRESS/BITS           of eth0, also of IPv6
///     daemon PORT PROGRAM WORDS...   started once the network is there, awaited until it listens
/// Standard output gets "pid N" (as this process sees PID 1) before the first step and "ready"
/// after the last; in between a line on standard input says that eth0 has been moved into the host.
int run_host(const char* file);

}  // namespace hvd::test
